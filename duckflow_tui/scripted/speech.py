"""The events of a scripted reply, as a provider of chat completions would send them."""

from __future__ import annotations

import json
from typing import Any, cast

from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.scripted.replies import Fault, Reply, ScriptedCall, Usage
from duckflow_tui.state.base import JsonObject


class Speech:
    """The events of one reply."""

    def __init__(self, reply: Reply, body: JsonObject, number: int) -> None:
        self._reply = reply
        self._number = number
        self._model = str(body.get("model", "scripted"))
        sent = [body.get("messages"), body.get("tools", []), body.get("response_format", [])]
        self._asked = estimate_tokens(json.dumps(sent, ensure_ascii=False))
        options: Any = body.get("stream_options")
        self._wants_usage = isinstance(options, dict) and bool(
            cast("JsonObject", options).get("include_usage")
        )
        self._content, self._calls = reply.content_for(body)

    def events(self) -> list[tuple[JsonObject, int | None]]:
        """Each event with its size in characters; None for reasoning, 0 for the opening."""
        found: list[tuple[JsonObject, int | None]] = [(self._delta({"role": "assistant"}), 0)]
        content = self._content
        reasoning = self._reply.reasoning
        if reasoning and self._reply.reasoning_as == "think":
            content, reasoning = f"<think>{reasoning}</think>\n\n{content}", ""
        for piece in self._pieces(reasoning):
            found.append((self._delta({self._reply.reasoning_as: piece}), None))
        for piece in self._pieces(content):
            found.append((self._delta({"content": piece}), len(piece)))
        for place, call in enumerate(self._calls):
            found.extend(self._call(place, call))
        return found

    def ending(self, fault: Fault) -> list[JsonObject]:
        """finish_reason and usage."""
        events: list[JsonObject] = []
        if not fault.endless:
            choice: JsonObject = {"index": 0, "delta": {}, "finish_reason": self._finish}
            events.append(self._event([choice]))
        if self._wants_usage and self._reply.send_usage:
            events.append({**self._event([]), "usage": self._usage()})
        return events

    def completion(self) -> str:
        """The reply in one piece, for a request that does not stream."""
        message: JsonObject = {"role": "assistant", "content": self._content}
        if self._reply.reasoning:
            message["reasoning_content"] = self._reply.reasoning
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": self._id(place, call),
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments(call)},
                }
                for place, call in enumerate(self._calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        body = {**self._event([choice]), "object": "chat.completion"}
        if self._reply.send_usage:
            body["usage"] = self._usage()
        return json.dumps(body, ensure_ascii=False)

    @property
    def _finish(self) -> str:
        return self._reply.finish or ("tool_calls" if self._calls else "stop")

    def _pieces(self, text: str) -> list[str]:
        size = self._reply.chunk_size
        return [text[start : start + size] for start in range(0, len(text), size)]

    def _call(self, place: int, call: ScriptedCall) -> list[tuple[JsonObject, int | None]]:
        index = place if call.index is None else call.index
        first = {
            "index": index,
            "id": self._id(place, call),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        events: list[tuple[JsonObject, int | None]] = [(self._delta({"tool_calls": [first]}), 0)]
        for piece in self._pieces(_arguments(call)):
            part = {"index": index, "function": {"arguments": piece}}
            events.append((self._delta({"tool_calls": [part]}), len(piece)))
        return events

    def _id(self, place: int, call: ScriptedCall) -> str:
        return f"scripted_{self._number}_{place}" if call.id is None else call.id

    def _delta(self, delta: JsonObject) -> JsonObject:
        return self._event([{"index": 0, "delta": delta, "finish_reason": None}])

    def _event(self, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": f"scripted-{self._number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
            "choices": choices,
        }

    def _usage(self) -> JsonObject:
        said = len(self._content) + sum(len(_arguments(call)) for call in self._calls)
        thought = len(self._reply.reasoning)
        usage = self._reply.usage or Usage(
            prompt=self._asked, reply=(said + thought) // 4 + 1, reasoning=thought // 4
        )
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.reply,
            "total_tokens": usage.prompt + usage.reply,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }


def _arguments(call: ScriptedCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)
