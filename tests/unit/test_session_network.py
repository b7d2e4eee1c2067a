"""What is said of the hosts that a session contacted."""

from __future__ import annotations

from typing import Any

import pytest
from support.conversations import operation
from support.decision_states import NOW

from duckflow_tui.session.network import beyond_words, host_facts, network_markdown, total_words
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.usage import HostContact
from duckflow_tui.words.catalogue import Catalogue

EN = Catalogue("en")


def host(**fields: Any) -> HostContact:
    values: dict[str, Any] = {"host": "a.example:443", "use": "model", "first": NOW, "last": NOW}
    return HostContact(**(values | fields))


def facts(state: AgentState | None = None, **fields: Any) -> dict[str, str]:
    return host_facts(state or AgentState(), host(**fields), EN)


@pytest.mark.parametrize(
    ("fields", "use"),
    [
        ({"name": "openai"}, "model: openai"),
        ({"name": "cli"}, "the model"),  # of the command line: nobody gave it a name
        ({"use": "mcp", "name": "cli"}, "tools: cli"),
        ({"use": "list"}, "list of models"),
    ],
)
def test_what_a_host_is_contacted_for_is_named(fields: dict[str, Any], use: str) -> None:
    assert facts(**fields)["use"] == use


@pytest.mark.parametrize(
    ("level", "fields", "opened"),
    [
        ("none", {}, True),
        ("external", {}, True),
        ("full", {}, False),
        ("partial", {}, False),
        ("full", {"by_user": True}, True),
        ("full", {"args": {"outside": True}}, True),
        ("full", {"args": {"hosts": ["a.example"]}}, False),  # those hosts, and no other
        ("partial", {"args": {"hosts": ["a.example"]}}, True),
        ("none", {"outcome": Outcome.ERROR}, True),
        ("none", {"outcome": Outcome.STOPPED}, True),
        ("none", {"outcome": Outcome.REJECTED}, False),
        ("none", {"operation": "file_ops.read_file"}, False),
    ],
)
def test_commands_that_were_not_kept_from_the_network_are_counted(
    level: Any, fields: dict[str, Any], opened: bool
) -> None:
    call: dict[str, Any] = {"operation": "shell.run", "args": {"command": "x"}} | fields
    ended = operation(call.pop("operation"), call.pop("args"), call.pop("outcome", Outcome.OK))
    state = AgentState()
    state.session = state.session.replace(sandbox=level)
    state.messages = [ended.replace(**call)]
    said = beyond_words(state, EN)
    assert said.startswith(EN("network.beyond"))
    assert ("Commands run with the network open: 1." in said) == opened


def test_the_export_has_a_row_for_each_use_of_a_host() -> None:
    state = AgentState()
    uses = (host(requests=2, sent=10), host(use="list", requests=1, sent=5, received=7, via="p:1"))
    state.hosts = {contact.use: contact for contact in uses}
    assert total_words(state, EN) == "hosts 1 · requests 3 · sent 15 B · received 7 B"
    lines = network_markdown(state, EN, lambda text: text.replace("p:1", "•")).splitlines()
    assert lines[:5] == [
        *("## Network", "", total_words(state, EN), ""),
        "| host | for | setting | via proxy | requests | sent | received | first | last |",
    ]
    assert [line.split(" | ")[3:5] for line in lines[6:8]] == [["", "2"], ["•", "1"]]
    assert lines[8:] == ["", EN("network.beyond")]
