"""Resources and prompts of a server: lists for the screen, and the user's text that refers
to them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.processes import McpPrompt, McpResource, McpServer
from duckflow_tui.tools.mcp.config import printable_line

if TYPE_CHECKING:
    from duckflow_tui.tools.mcp.connection import Offers

READ_RESOURCE: Final = "mcp_resources.read"  # operation that reads a resource
MAX_LISTED: Final = 500  # resources, and prompts, of one server
LONGEST: Final = 300  # characters of an address or a name
_ABOUT: Final = 160  # characters
_MENTION: Final = re.compile(r"(?:^|(?<=\s))@([A-Za-z0-9_-]{1,24}):(\S+)")
_PROMPT: Final = re.compile(r"([A-Za-z0-9_-]{1,24}):(\S+)")
BEHIND: Final = ".,;:!?)…。、，；：！？）」"  # punctuation that may follow an address


class PromptRefused(Exception):
    """A prompt could not be fetched; ``told`` is the reason for the user."""

    def __init__(self, key: str, **params: str) -> None:
        super().__init__(key)
        self.told = LocalizedText(key=key, params=params)


class Mention(NamedTuple):
    """A resource that a message names."""

    server: str
    uri: str


def list_resources(offers: Offers) -> tuple[McpResource, ...]:
    """Return the server's resources and templates for the screen, in its order; those whose address
    cannot be typed without a space are left out.
    """
    listed = [(r.uri, r.title or r.name, r.description, False) for r in offers.resources]
    listed += [
        (t.uri_template.partition("{")[0], t.title or t.name, t.description, True)
        for t in offers.templates
    ]
    return tuple(
        McpResource(
            uri=uri,
            about=printable_line(" · ".join(filter(None, (name, about))), _ABOUT),
            is_template=template,
        )
        for uri, name, about, template in listed[:MAX_LISTED]
        if uri.isprintable() and " " not in uri and len(uri) <= LONGEST
    )


def list_prompts(offers: Offers) -> tuple[McpPrompt, ...]:
    """Return the server's prompts for the screen; those whose name cannot be typed as a command are
    left out.
    """
    found: list[McpPrompt] = []
    for prompt in offers.prompts[:MAX_LISTED]:
        name = prompt.name
        if not name.isprintable() or len(name) > LONGEST or re.search(r"[\s/]", name):
            continue
        given = prompt.arguments or []
        found.append(
            McpPrompt(
                name=prompt.name,
                about=printable_line(prompt.description or prompt.title or "", _ABOUT),
                arguments=tuple(a.name for a in given),
                required=tuple(a.name for a in given if a.required),
            )
        )
    return tuple(found)


def find_mentions(text: str, servers: Iterable[McpServer]) -> tuple[Mention, ...]:
    """Return the resources that a message names as ``@server:uri``, each once, for servers that
    list resources. Punctuation behind an address is not part of it, unless the server lists it
    so.
    """
    known = {s.name: {r.uri for r in s.resources} for s in servers if s.resources}
    found: list[Mention] = []
    for name, written in _MENTION.findall(text):
        if name in known:
            uri = written if written in known[name] else written.rstrip(BEHIND)
            found.append(Mention(name, uri))
    return tuple(dict.fromkeys(found))


def parse_prompt_name(name: str) -> tuple[str, str] | None:
    """Return server and prompt of a command ``server:prompt``; None for any other text."""
    found = _PROMPT.fullmatch(name)
    return (found.group(1), found.group(2)) if found else None


def parse_prompt_arguments(prompt: McpPrompt, written: str) -> dict[str, str]:
    """Return the arguments of a prompt by name from the text behind its command: ``name=value``, or
    values in order, of which the last takes the rest of the text. Raises PromptRefused where a
    required one is missing.
    """
    try:
        words = shlex.split(written)
    except ValueError:  # an unbalanced quotation mark
        words = written.split()
    values: dict[str, str] = {}
    rest: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if sign and name in prompt.arguments:
            values[name] = value
        else:
            rest.append(word)
    open_names = [name for name in prompt.arguments if name not in values]
    for number, name in enumerate(open_names):
        if not rest:
            break
        last = number == len(open_names) - 1
        values[name] = " ".join(rest) if last else rest[0]
        rest = [] if last else rest[1:]
    missing = tuple(name for name in prompt.required if name not in values)
    if missing:
        needed = printable_line(", ".join(missing))
        raise PromptRefused("mcp.prompt_needs", prompt=prompt.name, names=needed)
    return values
