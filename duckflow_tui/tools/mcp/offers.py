"""Resources and prompts of a server: as lists for the screen, and how the user writes them."""

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

READ_RESOURCE: Final = "mcp_resources.read"  # the operation
MAX_LISTED: Final = 500  # resources, and prompts, of one server
LONGEST: Final = 300  # characters of an address or a name
_ABOUT: Final = 160  # characters
_MENTION: Final = re.compile(r"(?:^|(?<=\s))@([A-Za-z0-9_-]{1,24}):(\S+)")
_PROMPT: Final = re.compile(r"([A-Za-z0-9_-]{1,24}):(\S+)")
BEHIND: Final = ".,;:!?)…。、，；：！？）」"  # what may be written right behind an address


class PromptRefused(Exception):
    """A prompt that did not come; ``told`` says why, to the user."""

    def __init__(self, key: str, **params: str) -> None:
        super().__init__(key)
        self.told = LocalizedText(key=key, params=params)


class Mention(NamedTuple):
    """A resource that a message names."""

    server: str
    uri: str


def list_resources(offers: Offers) -> tuple[McpResource, ...]:
    """Resources and templates that can be written without a space, in the server's order."""
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
    """Prompts whose names can be written as a command."""
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
    """The resources that a message names as ``@server:uri``, each once, of servers that have some.
    A stop behind an address belongs to the sentence, unless the server lists it so.
    """
    known = {s.name: {r.uri for r in s.resources} for s in servers if s.resources}
    found: list[Mention] = []
    for name, written in _MENTION.findall(text):
        if name in known:
            uri = written if written in known[name] else written.rstrip(BEHIND)
            found.append(Mention(name, uri))
    return tuple(dict.fromkeys(found))


def parse_prompt_name(name: str) -> tuple[str, str] | None:
    """Server and prompt of a command ``server:prompt``; None where it is none."""
    found = _PROMPT.fullmatch(name)
    return (found.group(1), found.group(2)) if found else None


def parse_prompt_arguments(prompt: McpPrompt, written: str) -> dict[str, str]:
    """Read the arguments of a prompt, by name, from the text behind its command: as ``name=value``
    or in their order; the last one in order takes all that is left. Raises PromptRefused where one
    is missing that the prompt needs.
    """
    try:
        words = shlex.split(written)
    except ValueError:  # a quotation mark that stands alone
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
