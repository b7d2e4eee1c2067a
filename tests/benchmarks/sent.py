"""Tokens of a request as its body has them: messages, functions, the schema of the answer."""

from __future__ import annotations

from typing import Any, cast

from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.state.base import JsonObject, canonical_json

_COUNTER = ScriptCounter()


def body_tokens(body: JsonObject) -> int:
    """As the program estimates them for a model of which nothing was learned."""
    texts: list[str] = []
    for message in cast("list[JsonObject]", body.get("messages", [])):
        texts.append(str(message.get("content") or ""))
        if calls := message.get("tool_calls"):
            texts.append(canonical_json(calls))
    for name in ("tools", "response_format"):
        value: Any = body.get(name)
        if value:
            texts.append(canonical_json(value))
    return sum(_COUNTER.count(text) for text in texts)
