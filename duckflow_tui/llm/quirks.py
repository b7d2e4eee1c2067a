"""Quirks of models: one table of named flags, how a refusal shows each, what it changes in the
requests that follow.

A flag that a refusal has shown holds for that model at that origin, and is kept for a week in one
file that all programs of one user share. One that only a reply has shown counts in its session.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

from pydantic import TypeAdapter, ValidationError

from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.completion import OUTPUT
from duckflow_tui.llm.endpoints import OPENAI_ORIGIN, Endpoint, Protocol, Target
from duckflow_tui.llm.errors import LlmError, TokenLimits
from duckflow_tui.places import lock_folder, write_private
from duckflow_tui.state.base import JsonObject, hash_data
from duckflow_tui.state.usage import Api

Rung = Literal["tools", "json_schema", "json_object", "text"]
#: Lessons that the user is told of; those of ``SILENT`` are not.
Lesson = Literal[
    "tools", "results", "failing", "replies", "effort", "format", "roles", "parameter", "thoughts",
    "version", "window", "output", "images", ""
]  # fmt: skip
Flag = Literal[
    "no_tools",  # no native calls
    "plain_schemas",  # functions with the common keywords of JSON Schema only (Gemini)
    "no_strict",  # no ``strict`` beside a schema
    "needs_limit",  # the length of a reply must be limited
    "no_schema",  # no ``response_format`` with a schema
    "no_json_mode",  # no ``response_format`` at all
    "no_stream",  # answers in one piece only
    "responses",  # wants the Responses API: native calls with thinking (OpenAI from gpt-5.4 on)
    "no_responses",  # its server has no such API, whatever the refusal said
    "no_effort",  # native calls only without thinking, where the server has no other API
    "no_system",  # no message of the system
    "in_turn",  # user and assistant in turn
    "no_empty_text",  # a message with calls has no text rather than an empty one (Bedrock)
    "no_images",  # no pictures
    "no_marks",  # no parts of content that are marked for the cache
    "no_thoughts",  # its own reasoning is not taken back
    "needs_thoughts",  # a message with calls needs the reasoning that led to them (DeepSeek)
    "needs_signature",  # a call needs the signature of its thought (Gemini)
    "short_ids",  # ids of calls have nine letters or digits (Mistral)
    "writes_calls",  # native calls of this session could not be read, or came as text
    "stale_thoughts",  # the server cannot open reasoning that it sealed before
    "takes_tools",  # a request with native calls was answered in this session
    "fails_at_tools",  # all with native calls failed in this session, one without was answered
    "sends_whole",  # an answer of this session came in one piece, though a stream was asked for
]

LEAST_OUTPUT: Final = 256  # tokens; a reply that has to be shorter is no use
_NAMED: Final = (400, 422)  # statuses whose message names what was refused
_TEMPLATE: Final = (*_NAMED, 500)
_NOWHERE: Final = (404, 405, 501)  # statuses of an address where there is nothing
_LATE: Final = (404, 500, 501)  # some servers answer so for native calls, in these very words
_CALLS: Final = (
    r"(?:tools?|tool[_ -]?(?:choice|use|calls?|calling)|functions?|function[_ -]?call\w*)"
)
_NOT: Final = (
    r"(?:not (?:currently )?(?:support|available|enabled|allow|permit|implement|accept)\w*"
    r"|unsupported|unknown|unrecognized|unexpected|disabled|requires|extra inputs)"
)
#: Native calls are not to be had, in the words of servers: that calls are spoken of is not enough.
_NO_TOOLS: Final = (
    rf"\b{_CALLS}\b.{{0,80}}?\b{_NOT}"
    rf"|\b(?:not?|cannot|n't|that)\b.{{0,20}}?\b(?:support|accept|allow|implement)\w*\b.{{0,40}}?\b{_CALLS}\b"
    rf"|\b(?:unsupported|unknown|unrecognized|unexpected)\b.{{0,40}}?\b{_CALLS}\b"
    r"|invalid schema for function|--jinja|--enable-auto-tool-choice"
    r"|unable to generate parser|failed to parse grammar"  # llama.cpp makes them of the functions
)
_IN_TURN: Final = (
    r"roles? must alternate|alternat\w* .{0,40}\broles?\b|only user.{0,20}assistant.{0,20}roles?"
    r"|system message must be (?:at the beginning|first)|unexpected role '?user'? after role"
)
_FORMAT: Final = (
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured output|grammar|guided"
    r"|unable to generate parser"
)
_THOUGHTS: Final = (
    "reasoning_content", "reasoning", "reasoning_details", "extra_content", OUTPUT
)  # fmt: skip


Part = Literal[
    "request", "tools", "results", "json_schema", "json_object", "stream", "marks", "images",
    "thoughts",
]  # fmt: skip


def _parts_of(body: JsonObject) -> set[Part]:
    """The parts of a request that a server may refuse."""
    messages: list[JsonObject] = body["messages"]
    parts: set[Part] = {"request"}
    if "tools" in body:
        parts.add("tools")
    if any(message["role"] == "tool" for message in messages):
        parts.add("results")
    if form := body.get("response_format"):
        parts.add(form["type"])
    if body["stream"]:
        parts.add("stream")
    if not isinstance(messages[0]["content"], str):
        parts.add("marks")
    for message in messages[1:]:
        content: str | list[JsonObject] | None = message["content"]
        if isinstance(content, list) and any(part["type"] == "image_url" for part in content):
            parts.add("images")
    if any(name in message for message in messages for name in _THOUGHTS):
        parts.add("thoughts")
    return parts


_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_REPLY_LIMIT: Final = 16_384  # tokens, where a server wants a limit and the settings have none
#: Keywords of a schema that all servers take.
_COMMON: Final = ("type", "description", "enum", "items", "properties", "required", "anyOf")
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_SEEN: Final = "(results seen)"  # between results and what the user said after them
_NOT_KEPT: Final = "(not kept)"  # some refuse an empty text
_UNSIGNED: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}

#: Rewrites the body of a request in place; its messages are shared and never changed themselves.
Change = Callable[[JsonObject], None]


def _change_messages(rewrite: Callable[[JsonObject], JsonObject]) -> Change:
    """A change that puts another message in the place of each."""

    def change(body: JsonObject) -> None:
        body["messages"] = [*map(rewrite, body["messages"])]

    return change


def _stop_streaming(body: JsonObject) -> None:
    body["stream"] = False
    body.pop("stream_options", None)


def _stop_thinking(body: JsonObject) -> None:
    """Turn thinking off in requests with native calls."""
    if "tools" in body:
        body["reasoning_effort"] = "none"


def _limit_reply(body: JsonObject) -> None:
    """Limit the length of the reply where the settings do not."""
    if not body.keys() & set(_LIMITS):
        body["max_tokens"] = _REPLY_LIMIT


def _drop_strict(body: JsonObject) -> None:
    if form := body.get("response_format"):
        schema = {k: v for k, v in form["json_schema"].items() if k != "strict"}
        body["response_format"] = {**form, "json_schema": schema}


def _simplify_functions(body: JsonObject) -> None:
    """Leave what all servers take of the functions' schemas: ``const`` as the only choice of an
    ``enum``, one type where there are several.
    """
    made: list[JsonObject] = []
    for tool in body.get("tools", ()):
        function = tool["function"]
        made.append(
            {**tool, "function": {**function, "parameters": _simplify(function["parameters"])}}
        )
    if made:
        body["tools"] = made


def _simplify(schema: object) -> JsonObject:
    """The schema with the keywords of ``_COMMON`` only, at each of its levels."""
    if not isinstance(schema, dict):  # true stands for any value
        return {}
    given = cast("JsonObject", schema)
    kept: JsonObject = {name: given[name] for name in _COMMON if name in given}
    if "const" in given:
        kept["enum"] = [given["const"]]
    if isinstance(kept.get("type"), list):
        kept["type"] = next((kind for kind in kept["type"] if kind != "null"), "string")
    if "items" in kept:
        kept["items"] = _simplify(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [*map(_simplify, kept["anyOf"])]
    if "properties" in kept:
        kept["properties"] = {name: _simplify(one) for name, one in kept["properties"].items()}
    return kept


def _fold_system(body: JsonObject) -> None:
    """The words of the system become the first ones of the user, and roles alternate."""
    body["messages"] = [
        {**message, "role": "user"} if message["role"] == "system" else message
        for message in body["messages"]
    ]
    _alternate(body)


def _alternate(body: JsonObject) -> None:
    """Join messages of the user, so that roles alternate."""
    messages: list[JsonObject] = body["messages"]
    made: list[JsonObject] = []
    for message in messages:
        before = made[-1] if made else {"role": ""}
        if message["role"] == "user" and before["role"] in ("user", "tool"):
            # The last message tells how the work stands, and may stand in the last result.
            is_note = message is messages[-1] and isinstance(message["content"], str)
            if before["role"] == "user" or is_note:
                made[-1] = {**before, "content": _join_content(before, message)}
                continue
            made.append({"role": "assistant", "content": _SEEN})
        made.append(message)
    body["messages"] = made


def _join_content(first: JsonObject, second: JsonObject) -> object:
    """The content of two messages as that of one: text, unless one of them has parts."""
    contents: list[str | list[JsonObject]] = [first["content"], second["content"]]
    if all(isinstance(content, str) for content in contents):
        return f"{contents[0]}\n\n{contents[1]}"
    parts: list[JsonObject] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts


def _shorten_ids(message: JsonObject) -> JsonObject:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short_id(message["tool_call_id"])}
    calls: list[JsonObject] = message.get("tool_calls") or []
    short = [{**call, "id": _short_id(call["id"])} for call in calls]
    return {**message, "tool_calls": short} if calls else message


def _sign_calls(message: JsonObject) -> JsonObject:
    """Put the signature that stands for none on a reply's first call, which needs one."""
    calls: list[JsonObject] = message.get("tool_calls") or []
    if not calls or "extra_content" in calls[0]:
        return message
    return {**message, "tool_calls": [{**calls[0], "extra_content": _UNSIGNED}, *calls[1:]]}


def _drop_empty_text(message: JsonObject) -> JsonObject:
    is_empty = message.get("tool_calls") and not message["content"]
    return {**message, "content": None} if is_empty else message


def _add_thought(message: JsonObject) -> JsonObject:
    """Put a stand-in where a reply with calls has lost its reasoning."""
    lacks_it = message.get("tool_calls") and not message.get("reasoning_content")
    return {**message, "reasoning_content": _NOT_KEPT} if lacks_it else message


class Quirk(NamedTuple):
    """A row of the table: the flag is set where a refusal matches and the request holds what it
    may be about; then it changes each request. Without a ``change`` it decides on what is asked
    for: the API, the form of the answer, what goes with a message.
    """

    flag: Flag
    lesson: Lesson
    words: str  # a pattern for the parameter and message of the refusal
    statuses: tuple[int, ...] = _NAMED
    part: Part = "request"  # that the refusal may be about
    change: Change | None = None

    def matches(self, error: LlmError, body: JsonObject) -> bool:
        """Whether the refusal of this request shows the flag."""
        if error.status not in self.statuses or self.part not in _parts_of(body):
            return False
        return re.search(self.words, f"{error.param} {error.message}", re.I | re.S) is not None


#: Refusals in words of their own, in the order in which they are tried.
_EXACT: Final = (
    Quirk(
        "responses",
        "parameter",
        r"v1/responses|not a chat model|only (?:be )?(?:used|supported) (?:with|in) the responses",
        (400, 404),
    ),
    Quirk(
        "no_effort",
        "effort",
        r"function tools with reasoning_effort are not supported",
        change=_stop_thinking,
    ),
    Quirk(
        "stale_thoughts",
        "thoughts",
        r"encrypted[_ ]content.{0,200}?(?:could not be|invalid)|items are not persisted",
        (*_NAMED, 404),
        "thoughts",
    ),
    Quirk(
        "plain_schemas",
        "parameter",
        r"unknown name .{0,40} at '?tools\b|proto field is not repeating"
        r"|invalid schema for function",
        part="tools",
        change=_simplify_functions,
    ),
    Quirk(
        "no_strict",
        "parameter",
        r"\bstrict\b.{0,60}?(?:not (?:permitted|supported|allowed)|extra inputs)"
        r"|(?:unknown|unrecognized|unsupported|unexpected|extra)\b.{0,60}?\bstrict\b",
        part="json_schema",
        change=_drop_strict,
    ),
    Quirk(
        "needs_limit",
        "parameter",
        r"\bmax_tokens\b.{0,20}?(?:field required|is required|must be (?:set|specified|provided))"
        r"|(?:missing|required)\b.{0,40}?\bmax_tokens\b",
        change=_limit_reply,
    ),
    Quirk(
        "short_ids",
        "parameter",
        r"tool call id .{0,200}length of 9",
        change=_change_messages(_shorten_ids),
    ),
    Quirk(
        "needs_thoughts",
        "parameter",
        r"reasoning_content.{0,80}?(?:must be passed back|is missing)",
        change=_change_messages(_add_thought),
    ),
    Quirk(
        "no_empty_text",
        "parameter",
        r"text content blocks? must be non-?empty|text content blocks? .{0,40}must contain non-"
        r"whitespace|the text field in the contentblock.{0,60}is blank",
        part="results",
        change=_change_messages(_drop_empty_text),
    ),
    Quirk(
        "needs_signature",
        "parameter",
        r"missing a `?thought_signature",
        change=_change_messages(_sign_calls),
    ),
    Quirk(
        "no_images",
        "images",
        r"\bimages?\b|image_url|input_image|\bvision\b|multi-?modal|mmproj"
        r"|content.{0,80}?(?:must|should|valid).{0,20}?str",
        (*_NAMED, *_LATE, 413, 415),
        "images",
    ),
    Quirk(
        "no_marks",
        "parameter",
        r"cache_control|content.{0,80}?(?:must|should|valid).{0,20}?str",
        part="marks",
    ),
    Quirk(
        "no_system",
        "roles",
        r"system (?:role|message|prompt)s? .{0,20}?not support|not support\w* .{0,20}?\bsystem"
        r"|only user.{0,20}assistant.{0,20}roles?",
        _TEMPLATE,
        change=_fold_system,
    ),
    Quirk("in_turn", "roles", _IN_TURN, _TEMPLATE, change=_alternate),
    # In turn, it still refuses: its template has no place for results, or none for the system.
    Quirk("no_tools", "results", _IN_TURN, _TEMPLATE, "results"),
    Quirk("no_system", "roles", _IN_TURN, _TEMPLATE, change=_fold_system),
    Quirk(
        "no_stream",
        "parameter",
        r"verified to stream|stream(?:ing)?\b.{0,20}not support"
        r"|not support\w* stream(?:ing)?\b(?!_)",
        part="stream",
        change=_stop_streaming,
    ),
)
#: Refusals of a feature, tried once no parameter is named.
_BROAD: Final = (
    Quirk(  # a field of reasoning is named as one that is too much, not as one that is missing
        "no_thoughts",
        "thoughts",
        r"(?:reasoning(?:_content|_details)?|extra_content)\b.{0,200}?\b(?:remove|not (?:permitted"
        r"|allowed|supported|expected)|unsupported|unknown|unrecognized|unexpected|forbidden)"
        r"|(?:unknown|unrecognized|unexpected|unsupported|extra)\b.{0,60}?"
        r"\b(?:reasoning(?:_content|_details)?|extra_content)\b",
        part="thoughts",
    ),
    Quirk("no_tools", "tools", _NO_TOOLS, (*_NAMED, *_LATE), "tools"),
    Quirk("no_schema", "format", _FORMAT, part="json_schema"),
    Quirk("no_json_mode", "format", _FORMAT, part="json_object"),
)
#: The server could not read what the model wrote as a call; asked again, it may write it well.
_MISWRITTEN: Final = re.compile(
    r"tool_use_failed|failed to call a function|json_validate_failed|failed to (?:validate|generate"
    r") json|output_parse_failed", re.I
)  # fmt: skip
_DROPPABLE: Final = (
    "stream_options", "temperature", "reasoning_effort", "reasoning_summary", *_LIMITS
)  # fmt: skip
_FIXED: Final = frozenset({"model", "messages", "stream", "tools", "response_format"})
_NO_THINKING: Final = re.compile(
    r"not support thinking|\bthink value\b.{0,40}not support|thinking is not supported", re.I
)

#: Where requests say what is to be cached, and how; Anthropic's models only by marks.
_CACHES: Final[dict[str, Literal["marks", "key"]]] = {
    OPENAI_ORIGIN: "key",
    "https://openrouter.ai:443": "marks",
    "https://api.anthropic.com:443": "marks",
}


def cache_of(endpoint: Endpoint, model: str) -> Literal["marks", "key", "off"]:
    """How a request says what is to be cached: by the setting, else as its origin takes it."""
    if endpoint.cache != "auto":
        return endpoint.cache
    cache = _CACHES.get(endpoint.origin)
    return "off" if cache is None or (cache == "marks" and "claude" not in model) else cache


@dataclass(slots=True)
class Quirks:
    """The flags of one model at its origin, the parameters that it refused, and the numbers of
    tokens that its server named in this session, 0 for none.
    """

    flags: set[Flag] = field(default_factory=set["Flag"])
    dropped: set[str] = field(default_factory=set[str])
    at: float = 0.0  # seconds since the epoch, of the first refusal
    window: int = 0
    output: int = 0  # most of a reply

    @property
    def json(self) -> JsonRung:
        """The strictest form of JSON that was not refused."""
        if "no_json_mode" in self.flags:
            return "text"
        return "json_object" if "no_schema" in self.flags else "json_schema"

    @property
    def limit_name(self) -> str:
        """The parameter that limits the length of a reply."""
        return "max_completion_tokens" if "max_tokens" in self.dropped else "max_tokens"

    def rung(self, protocol: Protocol, *, calls: bool) -> Rung:
        """The form that the next request asks for; ``calls`` is false for a question in JSON."""
        is_refused = not self.flags.isdisjoint({"no_tools", "fails_at_tools", "writes_calls"})
        if not calls or protocol == "json" or (protocol != "tools" and is_refused):
            return self.json
        return "tools"

    def choose_api(self, protocol: Protocol, usual: Api) -> Api:
        """The API that the next request goes to; ``usual`` is the one known for the model."""
        if protocol == "responses":
            return "responses"
        if "no_responses" in self.flags:
            return "chat"
        return "responses" if "responses" in self.flags else usual

    def learn_from(self, error: LlmError, body: JsonObject, api: Api, endpoint: Endpoint) -> Lesson:
        """Learn from the refusal of a request, so that asking again makes sense; empty for no
        lesson. Native calls are given up only where the endpoint may step down.
        """
        if error.code in ("output_limit", "context_overflow"):
            return self.learn_limits(error.limits)
        if error.code not in ("bad_request", "not_found", "server_error", "responses_only"):
            return ""
        if api == "responses" and error.status in _NOWHERE and endpoint.protocol != "responses":
            self.flags.add("no_responses")
            return "parameter"
        excluded: set[Flag] = set() if endpoint.may_step_down else {"no_tools"}
        if lesson := self._set_flag(_EXACT, error, body, excluded):
            return lesson
        if error.status in _NAMED and (name := _refused_parameter(error, body)):
            self.dropped.add(name)
            return "parameter"
        return self._set_flag(_BROAD, error, body, excluded)

    def learn_limits(self, limits: TokenLimits) -> Lesson:
        """Learn from the numbers that a refusal of too many tokens names; empty for nothing new.
        ``output`` or ``parameter``: the same request fits with a shorter reply. ``window``: it has
        to be shorter itself.
        """
        room = limits.output
        if not room and 0 < limits.asked < limits.window:
            room = (limits.window - limits.asked) // 2  # so that the next request has room to grow
        if room >= LEAST_OUTPUT and not 0 < self.output <= room:
            lesson: Lesson = "parameter" if self.output else "output"
            self.output = room
            return lesson
        if limits.window and not 0 < self.window <= limits.window:
            self.window = limits.window
            return "window"
        return ""

    def _set_flag(
        self, rows: Sequence[Quirk], error: LlmError, body: JsonObject, excluded: set[Flag]
    ) -> Lesson:
        """Set the first flag that the refusal shows and that is new; none of the ``excluded``."""
        for quirk in rows:
            if quirk.flag not in self.flags | excluded and quirk.matches(error, body):
                self.flags.add(quirk.flag)
                return quirk.lesson
        return ""

    def change_body(self, body: JsonObject) -> None:
        """Rewrite the body of a request as this model takes it."""
        for quirk in (*_EXACT, *_BROAD):
            if quirk.change is not None and quirk.flag in self.flags:
                quirk.change(body)
        for name in self.dropped:
            body.pop(name, None)


def _refused_parameter(error: LlmError, body: JsonObject) -> str:
    """The parameter of a request that its refusal names; empty for none."""
    sent = [name for name in body if name in _DROPPABLE]
    extra = [name for name in body if name not in _DROPPABLE and name not in _FIXED]
    candidates = sent + extra
    # The Responses API calls ``reasoning.effort`` what chat completions call ``reasoning_effort``.
    param, message = (
        re.sub(r"\breasoning\.", "reasoning_", t) for t in (error.param, error.message)
    )
    if (root := param.split(".")[0]) in candidates:
        return root
    for name in sorted(candidates, key=len, reverse=True):
        if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", message):
            return name
    # Ollama speaks of its own parameter, which the one that was sent stands for.
    is_thinking = "reasoning_effort" in candidates and _NO_THINKING.search(error.message)
    return "reasoning_effort" if is_thinking else ""


def _short_id(given: str) -> str:
    return given if _SHORT_ID.fullmatch(given) else hash_data(given)[:9]


def is_refusal(error: LlmError, body: JsonObject) -> bool:
    """Whether a server error is a refusal in truth, so that to send the same again is no use."""
    rows = (*_EXACT, *_BROAD)
    return error.status in _LATE and any(quirk.matches(error, body) for quirk in rows)


def is_miswritten(error: LlmError) -> bool:
    """Whether the server refused its own model's call; the next answer may be another one."""
    words = f"{error.reason} {error.message}"
    return error.status in _NAMED and _MISWRITTEN.search(words) is not None


# --- the file -------------------------------------------------------------------------------------


class LearnedModels:
    """The quirks of each model at its origin, kept in a file for a week: servers are renewed.
    ``models`` are by origin and model. ``on_lesson`` hears of a lesson, and of whom it is.
    """

    def __init__(
        self,
        path: Path | None = None,
        now: float = 0.0,
        on_lesson: Callable[[Lesson, Target], None] = lambda lesson, target: None,
    ) -> None:
        """Reads the file; without a ``path`` nothing is kept. ``now``: seconds since the epoch."""
        self._path = path
        self._on_lesson = on_lesson
        self.models: defaultdict[str, Quirks] = defaultdict(Quirks)
        self.models.update(self._read_file(now))

    def keep_lesson(self, lesson: Lesson, target: Target, now: float) -> None:
        """Write down what was learned just now, unless it holds for this session only: failures
        without a reason, bad replies, and sizes, which a server may have other ones of when it
        starts again. A disk that fails costs the memory of it.
        """
        self._on_lesson(lesson, target)
        if lesson in _OF_NOW:
            return
        name = self.name_of(target)
        known = self.models[name]
        known.at = known.at or now
        lasting = replace(known, flags=known.flags - _OF_SESSION, window=0, output=0)
        self._write_change(lambda kept: kept.update({name: lasting}), now)

    def _read_file(self, now: float) -> dict[str, Quirks]:
        """Read the file, leaving out entries older than a week."""
        known: dict[str, Quirks] = {}
        if self._path is not None:
            with suppress(OSError, ValidationError):
                data = self._path.read_bytes()
                known = _LEARNED.validate_json(data) if len(data) <= _MOST_LEARNED else {}
        return {name: entry for name, entry in known.items() if now - entry.at < LEARNED_FOR}

    def _write_change(self, change: Callable[[dict[str, Quirks]], object], now: float) -> None:
        """Change the file, and nothing in it of what another program of ours has learned."""
        if self._path is None:
            return
        with suppress(OSError), lock_folder(self._path.parent, LEARNED_LOCK_S):
            change(kept := self._read_file(now))
            if kept:
                write_private(self._path, _LEARNED.dump_json(kept, indent=1))
            else:
                self._path.unlink(missing_ok=True)

    @staticmethod
    def name_of(target: Target) -> str:
        """The key of a model in ``models``."""
        return f"{target.endpoint.origin} {target.model}"

    def quirks_of(self, target: Target) -> Quirks:
        """The quirks of a model; learning changes them in place."""
        return self.models[self.name_of(target)]

    def forget_model(self, target: Target | None = None) -> None:
        """Forget the quirks of a model, or of all, in the file too."""
        if target is None:
            self.models.clear()
            self._write_change(lambda kept: kept.clear(), 0.0)
        else:
            name = self.name_of(target)
            self.models.pop(name, None)
            self._write_change(lambda kept: kept.pop(name, None), 0.0)


_LEARNED: Final = TypeAdapter(dict[str, Quirks])
SILENT: Final = ("parameter", "thoughts")
_OF_NOW: Final = ("failing", "replies", "window", "output", "images")  # lessons that are not kept
#: Flags that are not kept for the next session.
_OF_SESSION: Final[frozenset[Flag]] = frozenset(
    {"takes_tools", "fails_at_tools", "writes_calls", "sends_whole", "stale_thoughts", "no_images"}
)
_MOST_LEARNED: Final = 1024 * 1024  # bytes
LEARNED_LOCK_S: Final = 0.5  # seconds that the work stands while another program writes
LEARNED_FOR: Final = 7 * 24 * 3600.0  # seconds
