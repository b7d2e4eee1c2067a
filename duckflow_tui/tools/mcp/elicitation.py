"""Questions of a server to the user (elicitation), as cards: one for each field of a form, or one
for a page to open.

A server's words are data: they are shown with the server's name, and the answer goes to that server
alone, neither to the model nor to another server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pydantic import ValidationError

from duckflow_tui.safety.pending_questions import Desk, Unanswered
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.gates import (
    ACCEPT,
    DECLINE,
    LEAVE_OUT,
    NO,
    OFFERED,
    OPEN_PAGE,
    TELL,
    YES,
    CardAnswer,
    CardKind,
    CardOption,
    make_question_options,
)
from duckflow_tui.tools.mcp.browser import parse_page
from duckflow_tui.tools.mcp.config import MAX_SAID, printable_line
from duckflow_tui.tools.mcp.schemas import BadSchema, arguments_of
from duckflow_tui.tools.notices import Notices

if TYPE_CHECKING:
    from mcp import types

MAX_FIELDS: Final = 20  # fields of one form
MAX_OPEN: Final = 5  # cards of one server open at the same time; more are dismissed
_MAX_MESSAGE: Final = 2_000  # characters of a server's words on a card
_MAX_URL: Final = 2_000
_DIGITS: Final = 9  # most choices with a key each; with more, the user types one


class _Cancelled(Exception):
    """The question could not be asked or finished; the server is told that it was dismissed."""


class _Field(NamedTuple):
    """A field of a form. ``choices`` are pairs of value and label."""

    name: str
    schema: JsonObject
    kind: str  # boolean, integer, number, string, choice, choices
    choices: tuple[tuple[str, str], ...]
    required: bool


class ServerQuestions:
    """Puts the questions of one server to the user."""

    def __init__(
        self,
        server: str,
        desk: Desk,
        redact: Callable[[str], str],
        open_page: Callable[[str], Awaitable[bool]],
        notices: Notices,
    ) -> None:
        """``redact`` removes the server's own secrets from its words; ``open_page`` opens an
        address in the user's browser and returns whether it could.
        """
        self._notices = notices
        self._server = server
        self._desk = desk
        self._redact = redact
        self._open_page = open_page
        self._cards: set[str] = set()  # ids of the open cards

    async def answer(self, request: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask the user to fill in a form or open a page, and return the answer; "cancel" where
        nobody answered.
        """
        from mcp.types import ElicitResult

        try:
            if request.mode == "url":
                opened = await self.ask_to_open(request.url, request.message)
                return ElicitResult(action="accept" if opened else "decline")
            values = await self._ask_form(request.message, request.requested_schema)
        except _Cancelled:
            return ElicitResult(action="cancel")
        except Unanswered as unanswered:
            if unanswered.reason == "nobody":
                self._notices.warn("mcp.nobody", server=self._server)
            return ElicitResult(action="cancel")
        if values is None:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content=values)

    async def ask_to_open(self, url: str, message: str = "", *, signs_in: bool = False) -> bool:
        """Ask the user to open a page, and open it in the browser; return False for a no, or for an
        address that is not http or https. If no browser can be opened, the user is told the
        address. Raises Unanswered, and _Cancelled where too many cards are open.
        """
        page = parse_page(url)
        if page is None or len(page.url) > _MAX_URL:
            shown = printable_line(url)
            self._notices.warn("mcp.no_page", server=self._server, url=shown)
            return False
        facts = {"url": page.url, "host": page.host}
        if signs_in:
            facts["signs_in"] = "yes"
        answer = await self._ask((OPEN_PAGE, DECLINE), message, facts)
        if answer.action != OPEN_PAGE.action:
            return False
        if not await self._open_page(page.url):
            self._notices.warn("mcp.open_yourself", server=self._server, url=page.url)
        return True

    async def ask_to_contact(self, site: str) -> bool:
        """Ask whether requests may go to a site, given as host and port, to sign in at the server.
        Raises Unanswered.
        """
        try:
            answer = await self._ask((ACCEPT, DECLINE), "", {"contacts": site})
        except _Cancelled:
            return False
        return answer.action == ACCEPT.action

    def withdraw_all(self) -> None:
        """Close the open cards of the server, since nobody waits for their answers."""
        for card_id in tuple(self._cards):
            self._desk.withdraw_question(card_id, "stopped")

    async def _ask(
        self, options: tuple[CardOption, ...], message: str, facts: dict[str, str]
    ) -> CardAnswer:
        """Open a card and return its answer. Raises _Cancelled where too many cards are open, and
        Unanswered.
        """
        if len(self._cards) >= MAX_OPEN:
            raise _Cancelled
        text = self._redact(message)[:_MAX_MESSAGE]
        words = "\n".join(printable_line(line) for line in text.split("\n"))
        card = self._desk.make_card(
            CardKind.SERVER,
            options,
            question=words,
            facts={"server": self._server, **facts},
        )
        self._cards.add(card.card_id)
        try:
            return await self._desk.ask(card)
        finally:
            self._cards.discard(card.card_id)

    def _make_line(self, text: str, limit: int = MAX_SAID) -> str:
        """Return words of the server as one printable line without its secrets, at most ``limit``
        characters.
        """
        return printable_line(self._redact(text), limit)

    async def _ask_form(self, message: str, schema: JsonObject) -> dict[str, Any] | None:
        """Ask for the fields of a form one by one; return their values, None where the user
        declines. Raises _Cancelled and Unanswered.
        """
        fields = await asyncio.to_thread(_read_fields, schema)
        if not fields:
            answer = await self._ask((ACCEPT, DECLINE), message, {})
            return {} if answer.action == ACCEPT.action else None
        values: dict[str, Any] = {}
        for number, field in enumerate(fields, start=1):
            facts = _describe_field(field, self._make_line)
            options = _options_of(field, self._make_line)
            if len(fields) > 1:
                facts["place"] = f"{number}/{len(fields)}"
            while True:
                answer = await self._ask(options, message, facts)
                if answer.action == DECLINE.action:
                    return None
                if answer.action == LEAVE_OUT.action:
                    break
                value = _read_value(field, answer)
                if value is not None and _fits(field, value):
                    values[field.name] = value
                    break
                facts["wrong"] = printable_line(answer.text, 80)
        return values


def _read_fields(schema: JsonObject) -> tuple[_Field, ...]:
    """Return the fields of a form. Raises _Cancelled for a form that cannot be shown."""
    properties: object = schema.get("properties")
    names: object = schema.get("required")
    required = cast("list[object]", names) if isinstance(names, list) else []
    if not isinstance(properties, dict) or len(cast("JsonObject", properties)) > MAX_FIELDS:
        raise _Cancelled
    found: list[_Field] = []
    for name, field in cast("JsonObject", properties).items():
        if not isinstance(field, dict):
            raise _Cancelled
        table = cast("JsonObject", field)
        items: object = table.get("items")
        many = table.get("type") == "array" and isinstance(items, dict)
        choices = _read_choices(cast("JsonObject", items) if many else table)
        kind = "choices" if many else "choice" if choices else str(table.get("type"))
        if kind not in ("boolean", "integer", "number", "string", "choice", "choices"):
            raise _Cancelled
        try:
            arguments_of({"type": "object", "properties": {name: table}})
        except BadSchema as bad:
            raise _Cancelled from bad
        found.append(_Field(name, table, kind, choices, name in required))
    return tuple(found)


def _read_choices(schema: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return the values that a field allows, each with its label, from any form that the protocol
    has had; empty for a free field.
    """
    options: object = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(options, list):
        tables = [
            cast("JsonObject", o) for o in cast("list[object]", options) if isinstance(o, dict)
        ]
        return tuple((str(o.get("const")), str(o.get("title") or o.get("const"))) for o in tables)
    values: object = schema.get("enum")
    if not isinstance(values, list):
        return ()
    names: object = schema.get("enumNames")
    texts = [str(value) for value in cast("list[object]", values)]
    labels = [str(name) for name in cast("list[object]", names)] if isinstance(names, list) else []
    return tuple(zip(texts, labels if len(labels) == len(texts) else texts, strict=True))


def _describe_field(field: _Field, line: Callable[..., str]) -> dict[str, str]:
    """Return the facts that a card shows about a field. ``line`` makes one line of the server's
    words, up to a number of characters. Raises _Cancelled for a limit that cannot be shown.
    """
    schema = field.schema
    facts = {"field": line(str(schema.get("title") or field.name), 120)}
    facts["wants"] = line(str(schema.get("format") or field.kind), 40)
    if isinstance(schema.get("description"), str):
        facts["about"] = line(cast("str", schema["description"]))
    if field.kind == "choices" or len(field.choices) > _DIGITS:
        facts["choices"] = line(", ".join(value for value, _ in field.choices), 1_000)
    for fact, keys in (("least", ("minimum", "minLength")), ("most", ("maximum", "maxLength"))):
        limit = next((schema[key] for key in keys if key in schema), None)
        if isinstance(limit, int | float):
            try:
                facts[fact] = f"{limit:g}"
            except OverflowError as error:
                raise _Cancelled from error
    default: object = schema.get("default")
    if default is not None:
        facts["default"] = line(
            ", ".join(map(str, cast("list[object]", default)))
            if isinstance(default, list)
            else str(default),
            120,
        )
    return facts


def _options_of(field: _Field, line: Callable[..., str]) -> tuple[CardOption, ...]:
    """Return the answers that a card offers for a field."""
    last = (DECLINE,) if field.required else (LEAVE_OUT, DECLINE)
    if field.kind == "boolean":
        return (YES, NO, *last)
    if field.kind == "choice" and len(field.choices) <= _DIGITS:
        labels = [line(label, 80) for _, label in field.choices]
        *digits, _ = make_question_options(labels, approval=False)
        return (*digits, *last)
    return (TELL, *last)


def _read_value(field: _Field, answer: CardAnswer) -> Any:
    """Return the value that an answer gives for a field; None where it is of the wrong type."""
    text = answer.text.strip()
    if answer.action.startswith(OFFERED):
        return field.choices[int(answer.action.removeprefix(OFFERED)) - 1][0]
    values = {name: value for value, label in reversed(field.choices) for name in (label, value)}
    match field.kind:
        case "boolean":
            return answer.action == YES.action
        case "choice":
            return values.get(text)
        case "choices":
            chosen = [values.get(part.strip()) for part in text.split(",") if part.strip()]
            return None if None in chosen else chosen
        case "integer" | "number":
            try:
                return int(text) if field.kind == "integer" else float(text)
            except ValueError:
                return None
        case _:
            return text


def _fits(field: _Field, value: Any) -> bool:
    """Whether a value keeps the limits of its field; patterns and formats are left to the
    server.
    """
    check = arguments_of({"type": "object", "properties": {field.name: field.schema}})
    try:
        check.model_validate({field.name: value})
    except ValidationError:
        return False
    return True
