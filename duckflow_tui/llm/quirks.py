"""The table of quirks: how a server's refusal shows each one, and how it changes later requests.

A new quirk is one row here plus the function of ``request_changes`` in its ``change``. A row
without a change affects which kind of request is made: ``learned_models``, ``exchange`` or
``service`` check its flag.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from duckflow_tui.llm.completion import OUTPUT
from duckflow_tui.llm.errors import WANTS_RESPONSES, LlmError
from duckflow_tui.llm.request_changes import (
    OUTPUT_LIMITS,
    Change,
    add_thought,
    change_messages,
    drop_empty_text,
    drop_strict,
    fold_system,
    join_user_messages,
    limit_reply,
    shorten_ids,
    sign_calls,
    simplify_functions,
    stop_streaming,
    stop_thinking,
)
from duckflow_tui.state.base import JsonObject

#: Lessons reported to the user, except those in ``SILENT``.
Lesson = Literal[
    "tools", "results", "failing", "replies", "effort", "format", "roles", "parameter", "thoughts",
    "version", "window", "output", "images", ""
]  # fmt: skip
SILENT: Final = ("parameter", "thoughts")
#: Flags of models. All but the last five are set by a row of the table. No refusal shows
#: ``no_responses``, a server without that API; ``writes_calls``, native calls could not be read or
#: came as text; ``takes_tools``, a request with native calls was answered; ``fails_at_tools``, all
#: with native calls failed and one without was answered; ``sends_whole``, an answer came in one
#: piece though a stream was asked for.
Flag = Literal[
    "responses", "no_effort", "stale_thoughts", "plain_schemas", "no_strict", "needs_limit",
    "short_ids", "needs_thoughts", "no_empty_text", "needs_signature", "no_images", "no_marks",
    "no_system", "in_turn", "no_tools", "no_stream", "no_thoughts", "no_schema", "no_json_mode",
    "no_responses", "writes_calls", "takes_tools", "fails_at_tools", "sends_whole",
]  # fmt: skip

NAMED_STATUSES: Final = (400, 422)  # statuses whose message names the refused part
_TEMPLATE: Final = (*NAMED_STATUSES, 500)
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
    rf"|(?:\bnot?|cannot|n['’]t|that)\b.{{0,20}}?\b(?:support|accept|allow|implement)\w*\b.{{0,40}}?\b{_CALLS}\b"
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
    """Return which parts that a server may refuse this request contains."""
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


class Quirk(NamedTuple):
    """A row of the table. Its flag is set if a refusal has one of the statuses, its words match,
    and the request contains the part. From then on ``change`` is applied to each request.
    """

    flag: Flag
    words: str  # a pattern for the parameter and message of the refusal
    statuses: tuple[int, ...] = NAMED_STATUSES
    part: Part = "request"  # that the refusal may be about
    change: Change | None = None
    lesson: Lesson = "parameter"

    def matches(self, error: LlmError, body: JsonObject) -> bool:
        """Whether the refusal of this request shows the quirk."""
        if error.status not in self.statuses or self.part not in _parts_of(body):
            return False
        return re.search(self.words, f"{error.param} {error.message}", re.I | re.S) is not None


#: Refusals in words of their own, in the order in which they are tried.
EXACT: Final = (
    # Wants the Responses API: native calls with thinking (OpenAI from gpt-5.4 on).
    Quirk("responses", WANTS_RESPONSES, (400, 404)),
    # Native calls only without thinking, where the server has no other API.
    Quirk(
        "no_effort",
        r"function tools with reasoning_effort are not supported",
        change=stop_thinking,
        lesson="effort",
    ),
    # Cannot open reasoning that the server sealed before.
    Quirk(
        "stale_thoughts",
        r"encrypted[_ ]content.{0,200}?(?:could not be|invalid)|items are not persisted",
        (*NAMED_STATUSES, 404),
        "thoughts",
        lesson="thoughts",
    ),
    # Functions with the common keywords of JSON Schema only (Gemini).
    Quirk(
        "plain_schemas",
        r"unknown name .{0,40} at '?tools\b|function_declarations|proto field is not repeating"
        r"|invalid schema for function|invalid fields for schema|schema conversion failed",
        part="tools",
        change=simplify_functions,
    ),
    # No ``strict`` beside a schema.
    Quirk(
        "no_strict",
        r"\bstrict\b.{0,60}?(?:not (?:permitted|supported|allowed)|extra inputs)"
        r"|(?:unknown|unrecognized|unsupported|unexpected|extra)\b.{0,60}?\bstrict\b",
        part="json_schema",
        change=drop_strict,
    ),
    # The length of a reply must be limited.
    Quirk(
        "needs_limit",
        r"\bmax_tokens\b.{0,20}?(?:field required|is required|must be (?:set|specified|provided))"
        r"|(?:missing|required)\b.{0,40}?\bmax_tokens\b",
        change=limit_reply,
    ),
    # Ids of calls have nine letters or digits (Mistral).
    Quirk(
        "short_ids",
        r"tool call id .{0,200}length of 9",
        change=change_messages(shorten_ids),
    ),
    # A message with calls needs the reasoning that led to them (DeepSeek).
    Quirk(
        "needs_thoughts",
        r"reasoning_content.{0,80}?(?:must be passed back|is missing)|missing .?reasoning_content",
        change=change_messages(add_thought),
    ),
    # A message with calls has no text rather than an empty one (Bedrock).
    Quirk(
        "no_empty_text",
        r"text content blocks? must be non-?empty|text content blocks? .{0,40}must contain non-"
        r"whitespace|the text field in the contentblock.{0,60}is blank",
        part="results",
        change=change_messages(drop_empty_text),
    ),
    # A call needs the signature of its thought (Gemini).
    Quirk(
        "needs_signature",
        r"missing a `?thought_signature",
        change=change_messages(sign_calls),
    ),
    # No pictures.
    Quirk(
        "no_images",
        r"\bimages?\b|image_url|input_image|\bvision\b|multi-?modal|mmproj"
        r"|content.{0,80}?(?:must|should|valid).{0,20}?str",
        (*NAMED_STATUSES, *_LATE, 413, 415),
        "images",
        lesson="images",
    ),
    # No parts of content that are marked for the cache.
    Quirk(
        "no_marks",
        r"cache_control|content.{0,80}?(?:must|should|valid).{0,20}?str",
        part="marks",
    ),
    # No message of the system.
    Quirk(
        "no_system",
        r"(?:system|developer) \w+ .{0,20}?not (?:support|enabled)"
        r"|(?:not|n['’]t) support\w* .{0,20}?\bsystem"
        r"|only user.{0,20}assistant.{0,20}roles?",
        _TEMPLATE,
        change=fold_system,
        lesson="roles",
    ),
    # Messages of user and assistant in turn.
    Quirk("in_turn", _IN_TURN, _TEMPLATE, change=join_user_messages, lesson="roles"),
    # In turn, it still refuses: its template has no place for results, or none for the system.
    Quirk("no_tools", _IN_TURN, _TEMPLATE, "results", lesson="results"),
    Quirk("no_system", _IN_TURN, _TEMPLATE, change=fold_system, lesson="roles"),
    # Answers in one piece only.
    Quirk(
        "no_stream",
        r"verified to stream|stream(?:ing)?\b.{0,20}not support"
        r"|(?:not|n['’]t) support\w* .{0,16}?\bstream(?:ing)?\b(?!_)",
        part="stream",
        change=stop_streaming,
    ),
)
#: Refusals of a feature, tried once no parameter is named.
BROAD: Final = (
    # Its own reasoning is not taken back: a field of it is named as one that is too much, not as
    # one that is missing.
    Quirk(
        "no_thoughts",
        r"(?:reasoning(?:_content|_details)?|extra_content)\b.{0,200}?\b(?:remove|not (?:permitted"
        r"|allowed|supported|expected)|unsupported|unknown|unrecognized|unexpected|forbidden)"
        r"|(?:unknown|unrecognized|unexpected|unsupported|extra)\b.{0,60}?"
        r"\b(?:reasoning(?:_content|_details)?|extra_content)\b",
        part="thoughts",
        lesson="thoughts",
    ),
    # No native calls; no ``response_format`` with a schema; none at all.
    Quirk("no_tools", _NO_TOOLS, (*NAMED_STATUSES, *_LATE), "tools", lesson="tools"),
    Quirk("no_schema", _FORMAT, part="json_schema", lesson="format"),
    Quirk("no_json_mode", _FORMAT, part="json_object", lesson="format"),
    # Whatever else a request with pictures was refused for: those that follow would hold them too.
    Quirk("no_images", "", (*NAMED_STATUSES, 413), "images", lesson="images"),
)
_OPTIONAL_PARAMETERS: Final = (
    "stream_options", "temperature", "reasoning_effort", "reasoning_summary", *OUTPUT_LIMITS
)  # fmt: skip
_FIXED: Final = frozenset({"model", "messages", "stream", "tools", "response_format"})
_THINKING: Final = re.compile(r"\b(?:think|thinking|reasoning|reasoningEffort)\b", re.I)

#: The server could not parse the model's call; a new attempt may succeed.
_MISWRITTEN: Final = re.compile(
    r"tool_use_failed|failed to call a function|json_validate_failed|failed to (?:validate|generate"
    r") json|output_parse_failed|error parsing tool call|failed to parse input", re.I
)  # fmt: skip


def find_refused_parameter(error: LlmError, body: JsonObject) -> str:
    """Return the parameter of the request that its refusal names, among those that a request can do
    without; empty if it names none.
    """
    sent = [name for name in body if name in _OPTIONAL_PARAMETERS]
    extra = [name for name in body if name not in _OPTIONAL_PARAMETERS and name not in _FIXED]
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
    return ""


def is_about_thinking(error: LlmError, body: JsonObject) -> bool:
    """Whether a refusal speaks of thinking, by any name, and the request set its effort."""
    return "reasoning_effort" in body and _THINKING.search(error.message) is not None


def is_refusal(error: LlmError, body: JsonObject) -> bool:
    """Whether an error of status 404, 500 or 501 is actually a refusal that a row of the table
    matches, so that repeating the request is useless.
    """
    if error.status not in _LATE or is_miswritten(error):
        return False
    return any(quirk.matches(error, body) for quirk in (*EXACT, *BROAD))


def is_miswritten(error: LlmError) -> bool:
    """Whether the server could not parse a call that its own model wrote, which says nothing
    against native calls; another attempt may succeed.
    """
    words = f"{error.reason} {error.message}"
    return error.status in _TEMPLATE and _MISWRITTEN.search(words) is not None
