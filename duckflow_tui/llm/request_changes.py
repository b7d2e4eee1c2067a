"""Changes to a request's body (a chat completion) for servers that refuse its usual form.

Each function changes the body in place. Messages are shared between requests, so they are replaced,
never changed. Functions of one message return its replacement.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from duckflow_tui.state.base import JsonObject, hash_data

OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
_REPLY_LIMIT: Final = 16_384  # tokens, if a server requires a limit and the settings have none
#: Keywords of a schema that all servers take.
_KEYWORDS: Final = (
    "type",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "anyOf",
)
_SHORT_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
_RESULTS_SEEN: Final = "(results seen)"  # between results and what the user said after them
_THOUGHT_LOST: Final = "(not kept)"  # some refuse an empty text
_NO_SIGNATURE: Final = {"google": {"thought_signature": "skip_thought_signature_validator"}}

Change = Callable[[JsonObject], None]


def change_messages(rewrite: Callable[[JsonObject], JsonObject]) -> Change:
    """Make a change that replaces each message by ``rewrite`` of it."""

    def change(body: JsonObject) -> None:
        """Replace all messages of the body."""
        body["messages"] = [*map(rewrite, body["messages"])]

    return change


def stop_streaming(body: JsonObject) -> None:
    """Request the answer as a whole instead of a stream."""
    body["stream"] = False
    body.pop("stream_options", None)


def stop_thinking(body: JsonObject) -> None:
    """Turn reasoning off, if the request has functions."""
    if "tools" in body:
        body["reasoning_effort"] = "none"


def limit_reply(body: JsonObject) -> None:
    """Limit the length of the reply to 16,384 tokens unless the body limits it already."""
    if not body.keys() & set(OUTPUT_LIMITS):
        body["max_tokens"] = _REPLY_LIMIT


def drop_strict(body: JsonObject) -> None:
    """Remove ``strict`` from the JSON schema of the reply."""
    if form := body.get("response_format"):
        schema = {k: v for k, v in form["json_schema"].items() if k != "strict"}
        body["response_format"] = {**form, "json_schema": schema}


def simplify_functions(body: JsonObject) -> None:
    """Reduce the schemas of functions to what all servers accept: ``const`` as a one-element
    ``enum``, one type instead of several; a function without arguments has no schema.
    """
    made: list[JsonObject] = []
    for tool in body.get("tools", ()):
        function = {**tool["function"]}
        parameters = _simplify(function.pop("parameters"))
        if parameters.get("properties"):
            function["parameters"] = parameters
        made.append({**tool, "function": function})
    if made:
        body["tools"] = made


def _simplify(schema: object) -> JsonObject:
    """Return a schema with only the keywords in ``_KEYWORDS``, at every level. Only texts keep
    their ``enum``.
    """
    if not isinstance(schema, dict):  # ``true`` allows any value
        return {}
    given = cast("JsonObject", schema)
    kept: JsonObject = {name: given[name] for name in _KEYWORDS if name in given}
    if "const" in given:
        kept["enum"] = [given["const"]]
    if isinstance(kept.get("type"), list):
        kept["type"] = next((kind for kind in kept["type"] if kind != "null"), "string")
    if kept.get("type", "string") != "string":
        kept.pop("enum", None)
    if "items" in kept:
        kept["items"] = _simplify(kept["items"])
    if "anyOf" in kept:
        kept["anyOf"] = [*map(_simplify, kept["anyOf"])]
    if "properties" in kept:
        kept["properties"] = {name: _simplify(one) for name, one in kept["properties"].items()}
    return kept


def fold_system(body: JsonObject) -> None:
    """Change the system message to a user message, and join messages so that roles alternate."""
    body["messages"] = [
        {**message, "role": "user"} if message["role"] == "system" else message
        for message in body["messages"]
    ]
    join_user_messages(body)


def join_user_messages(body: JsonObject) -> None:
    """Join consecutive user messages, so that roles alternate. A user message behind results joins
    the last of them if it is the note at the end, else a short reply is put between.
    """
    messages: list[JsonObject] = body["messages"]
    made: list[JsonObject] = []
    for message in messages:
        before = made[-1] if made else {"role": ""}
        if message["role"] == "user" and before["role"] in ("user", "tool"):
            # The last message notes the state of the work; it may become part of the last result.
            is_note = message is messages[-1] and isinstance(message["content"], str)
            if before["role"] == "user" or is_note:
                made[-1] = {**before, "content": _join_content(before, message)}
                continue
            made.append({"role": "assistant", "content": _RESULTS_SEEN})
        made.append(message)
    body["messages"] = made


def _join_content(first: JsonObject, second: JsonObject) -> object:
    """Join the contents of two messages: as text, or as parts if one has parts."""
    contents: list[str | list[JsonObject]] = [first["content"], second["content"]]
    if all(isinstance(content, str) for content in contents):
        return f"{contents[0]}\n\n{contents[1]}"
    parts: list[JsonObject] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts


def shorten_ids(message: JsonObject) -> JsonObject:
    """Replace the ids of calls, and of the call that a result answers, by short ones."""
    if "tool_call_id" in message:
        return {**message, "tool_call_id": _short_id(message["tool_call_id"])}
    calls: list[JsonObject] = message.get("tool_calls") or []
    short = [{**call, "id": _short_id(call["id"])} for call in calls]
    return {**message, "tool_calls": short} if calls else message


def sign_calls(message: JsonObject) -> JsonObject:
    """Add a placeholder signature to a reply's first call if it has none."""
    calls: list[JsonObject] = message.get("tool_calls") or []
    if not calls or "extra_content" in calls[0]:
        return message
    return {**message, "tool_calls": [{**calls[0], "extra_content": _NO_SIGNATURE}, *calls[1:]]}


def drop_empty_text(message: JsonObject) -> JsonObject:
    """Replace the empty content of a reply with calls by null."""
    is_empty = message.get("tool_calls") and not message["content"]
    return {**message, "content": None} if is_empty else message


def add_thought(message: JsonObject) -> JsonObject:
    """Add placeholder reasoning to a reply with calls whose reasoning was lost."""
    lacks_it = message.get("tool_calls") and not message.get("reasoning_content")
    return {**message, "reasoning_content": _THOUGHT_LOST} if lacks_it else message


def _short_id(given: str) -> str:
    """Return the id if it has nine letters or digits, else nine characters of its hash."""
    return given if _SHORT_ID.fullmatch(given) else hash_data(given)[:9]
