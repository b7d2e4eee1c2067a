"""Formats the network contacts of a session as text: for the screen, and as Markdown."""

from __future__ import annotations

from typing import Final

from duckflow_tui.llm.endpoints import CLI_ENDPOINT
from duckflow_tui.safety.safe_text import make_visible
from duckflow_tui.session.decisions import table_text
from duckflow_tui.session.records import Redact
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import to_datetime
from duckflow_tui.state.rewind import list_all_calls
from duckflow_tui.state.usage import HostContact
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import size_text

_FACTS: Final = (
    "host", "use", "roles", "setting", "via", "requests", "sent", "received", "first", "last",
)  # fmt: skip


def use_words(host: HostContact, words: Catalogue) -> str:
    """Return the purpose of contacting a host, such as "model: openai"; "the model" for the unnamed
    endpoint of the command line.
    """
    if host.use == "model" and host.name == CLI_ENDPOINT:
        return words("network.use.model_given")
    return words(f"network.use.{host.use}", name=host.name)


def host_facts(state: AgentState, host: HostContact, words: Catalogue) -> dict[str, str]:
    """Return the known facts of a host in words, by name; unknown ones are left out."""
    scripted = host.use == "model" and state.session.demo
    first, last = to_datetime(host.first), to_datetime(host.last)
    by = "consent" if host.use == "command" else "user"
    found = {
        "host": host.host,
        "use": use_words(host, words),
        "roles": ", ".join(host.roles),
        "setting": "--demo" if scripted else host.setting or words(f"network.by.{by}"),
        "via": host.via,
        "requests": str(host.requests),
        "sent": size_text(host.sent),
        "received": size_text(host.received),
        "first": f"{first:%Y-%m-%d %H:%M:%S}" if first else "",
        "last": f"{last:%Y-%m-%d %H:%M:%S}" if last else "",
    }
    return {name: make_visible(found[name]) for name in _FACTS if found[name]}


def total_words(state: AgentState, words: Catalogue) -> str:
    """Return the sums over all hosts as ``hosts 2 · requests 14 · sent 34 KB · received
    120 KB``.
    """
    found = state.hosts.values()
    return words(
        "network.total",
        hosts=len({host.host for host in found}),
        requests=sum(host.requests for host in found),
        sent=size_text(sum(host.sent for host in found)),
        received=size_text(sum(host.received for host in found)),
    )


def beyond_words(state: AgentState, words: Catalogue) -> str:
    """Return a note that commands' own traffic is not counted, with the number of commands that had
    network access.
    """
    level = state.session.sandbox
    unheld = level in ("none", "external")
    opened = sum(
        unheld
        or call.by_user
        or bool(call.args.get("outside"))
        or (level != "full" and bool(call.args.get("hosts")))
        for call in list_all_calls(state)
        if call.operation == "shell.run" and call.result.outcome.may_have_effects
    )
    said = [words("network.beyond")]
    if opened:
        said.append(words("network.commands", count=opened))
    return " ".join(said)


def network_markdown(state: AgentState, words: Catalogue, redact: Redact) -> str:
    """Format each host and its facts as Markdown. Secrets are redacted and control characters made
    visible.
    """
    rows = [host_facts(state, host, words) for host in state.hosts.values()]
    names = [name for name in _FACTS if any(name in row for row in rows)]
    blocks = [f"## {words('network.title')}"]
    if rows:
        blocks.append(total_words(state, words))
        head = [words(f"network.fact.{name}") for name in names]
        blocks.append(table_text(head, [[row.get(name, "") for name in names] for row in rows]))
    else:
        blocks.append(words("network.none"))
    blocks.append(beyond_words(state, words))
    return redact(make_visible("\n\n".join(blocks))) + "\n"
