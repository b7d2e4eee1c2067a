"""The events of a scripted reply, as a provider sends them by either API."""

from __future__ import annotations

import base64
import json
from typing import Any, Final, cast

from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.scripted.replies import Reply, ScriptedCall, Usage, list_messages
from duckflow_tui.state.base import JsonObject

#: What the Responses API calls the reasons of chat completions why a reply is incomplete.
_REASONS: Final = {"length": "max_output_tokens"}


class Speech:
    """The events of one reply as chat completions has them."""

    def __init__(self, reply: Reply, body: JsonObject, number: int) -> None:
        self._reply = reply
        self._number = number
        self._model = str(body.get("model", "scripted"))
        sent = [list_messages(body), body.get("tools", []), body.get("response_format", [])]
        self._asked = estimate_tokens(json.dumps(sent, ensure_ascii=False))
        options: Any = body.get("stream_options")
        self._wants_usage = isinstance(options, dict) and bool(
            cast("JsonObject", options).get("include_usage")
        )
        self._content, self._calls = reply.content_for(body)

    def events(self) -> list[tuple[JsonObject, int | None]]:
        """Each event with its size in characters; None for reasoning, 0 for the opening."""
        found: list[tuple[JsonObject, int | None]] = [(self._delta({"role": "assistant"}), 0)]
        for piece in self._pieces(self._reply.reasoning):
            found.append((self._delta({"reasoning_content": piece}), None))
        for piece in self._pieces(self._content):
            found.append((self._delta({"content": piece}), len(piece)))
        for place, call in enumerate(self._calls):
            found.extend(self._call(place, call))
        return found

    def ending(self) -> list[JsonObject | str]:
        """Return the events with finish_reason and usage, and the word that ends the stream."""
        choice: JsonObject = {"index": 0, "delta": {}, "finish_reason": self._finish}
        events: list[JsonObject | str] = [self._event([choice])]
        if self._wants_usage and self._reply.send_usage:
            events.append({**self._event([]), "usage": self._usage()})
        return [*events, "[DONE]"]

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

    def _count(self) -> Usage:
        said = len(self._content) + sum(len(_arguments(call)) for call in self._calls)
        thought = len(self._reply.reasoning)
        return self._reply.usage or Usage(
            prompt=self._asked, reply=(said + thought) // 4 + 1, reasoning=thought // 4
        )

    def _usage(self) -> JsonObject:
        usage = self._count()
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.reply,
            "total_tokens": usage.prompt + usage.reply,
            "prompt_tokens_details": {"cached_tokens": usage.cached},
            "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
        }


class ResponseSpeech(Speech):
    """The events of one reply as the Responses API has them."""

    def events(self) -> list[tuple[JsonObject, int | None]]:
        """Each event with its size in characters; None for reasoning, 0 for what is of neither."""
        found: list[tuple[JsonObject, int | None]] = []

        def add(kind: str, size: int | None = 0, **fields: Any) -> None:
            event = {"type": f"response.{kind}", "sequence_number": len(found), **fields}
            found.append((event, size))

        add("created", response=self._response("in_progress", []))
        for at, item in enumerate(self._items()):
            place: JsonObject = {"item_id": item["id"], "output_index": at}
            begun: JsonObject = {
                "status": "in_progress",
                "summary": [],
                "content": [],
                "arguments": "",
            }
            first = {**item, **{name: value for name, value in begun.items() if name in item}}
            add("output_item.added", output_index=at, item=first)
            if item["type"] == "function_call":
                for piece in self._pieces(item["arguments"]):
                    add("function_call_arguments.delta", len(piece), **place, delta=piece)
                add("function_call_arguments.done", **place, arguments=item["arguments"],
                    name=item["name"])  # fmt: skip
            elif item["type"] == "reasoning":
                (part,) = item["summary"]
                place["summary_index"] = 0
                add("reasoning_summary_part.added", **place, part={**part, "text": ""})
                for piece in self._pieces(part["text"]):
                    add("reasoning_summary_text.delta", None, **place, delta=piece)
                add("reasoning_summary_text.done", **place, text=part["text"])
                add("reasoning_summary_part.done", **place, part=part)
            else:
                (part,) = item["content"]
                place["content_index"] = 0
                add("content_part.added", **place, part={**part, "text": ""})
                for piece in self._pieces(part["text"]):
                    add("output_text.delta", len(piece), **place, delta=piece, logprobs=[])
                add("output_text.done", **place, text=part["text"], logprobs=[])
                add("content_part.done", **place, part=part)
            add("output_item.done", output_index=at, item=item)
        return found

    def ending(self) -> list[JsonObject | str]:
        """Return the event with the whole response."""
        response = json.loads(self.completion())
        kind = f"response.{response['status']}"
        return [{"type": kind, "sequence_number": 10_000, "response": response}]

    def completion(self) -> str:
        """The response in one piece, for a request that does not stream."""
        status = "incomplete" if self._reply.finish else "completed"
        body = self._response(status, self._items())
        if self._reply.send_usage:
            usage = self._count()
            body["usage"] = {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
                "output_tokens": usage.reply,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.prompt + usage.reply,
            }
        return json.dumps(body, ensure_ascii=False)

    def _items(self) -> list[JsonObject]:
        """The output: reasoning, the message, then the calls."""
        thought, content = self._reply.reasoning, self._content
        items: list[JsonObject] = []
        if thought:
            sealed = base64.b64encode(thought.encode()).decode()
            items.append(
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}],
                 "encrypted_content": sealed}
            )  # fmt: skip
        if content:
            part: JsonObject = {"type": "output_text", "text": content, "annotations": []}
            items.append(
                {"type": "message", "role": "assistant", "status": "completed", "content": [part]}
            )
        for place, call in enumerate(self._calls):
            items.append(
                {"type": "function_call", "status": "completed", "call_id": self._id(place, call),
                 "name": call.name, "arguments": _arguments(call)}
            )  # fmt: skip
        return [{"id": f"item_{self._number}_{at}", **item} for at, item in enumerate(items)]

    def _response(self, status: str, output: list[JsonObject]) -> JsonObject:
        reason = _REASONS.get(self._reply.finish, self._reply.finish)
        return {
            "id": f"resp_{self._number}",
            "object": "response",
            "created_at": 0,
            "model": self._model,
            "status": status,
            "output": output,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }


def _arguments(call: ScriptedCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)
