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
        found: list[tuple[JsonObject, int | None]] = [(self._delta_event({"role": "assistant"}), 0)]
        for piece in self._split_text(self._reply.reasoning):
            found.append((self._delta_event({"reasoning_content": piece}), None))
        for piece in self._split_text(self._content):
            found.append((self._delta_event({"content": piece}), len(piece)))
        for place, call in enumerate(self._calls):
            found.extend(self._call_events(place, call))
        return found

    def ending(self) -> list[JsonObject | str]:
        """Return the events with finish_reason and usage, and the word that ends the stream."""
        choice: JsonObject = {"index": 0, "delta": {}, "finish_reason": self._finish_reason}
        events: list[JsonObject | str] = [self._make_chunk([choice])]
        if self._wants_usage and self._reply.send_usage:
            events.append({**self._make_chunk([]), "usage": self._usage_fields()})
        return [*events, "[DONE]"]

    def completion(self) -> str:
        """Return the JSON of the whole reply, for a request that does not stream."""
        message: JsonObject = {"role": "assistant", "content": self._content}
        if self._reply.reasoning:
            message["reasoning_content"] = self._reply.reasoning
        if self._calls:
            message["tool_calls"] = [
                {
                    "id": self._call_id(place, call),
                    "type": "function",
                    "function": {"name": call.name, "arguments": _arguments_text(call)},
                }
                for place, call in enumerate(self._calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._finish_reason}
        body = {**self._make_chunk([choice]), "object": "chat.completion"}
        if self._reply.send_usage:
            body["usage"] = self._usage_fields()
        return json.dumps(body, ensure_ascii=False)

    @property
    def _finish_reason(self) -> str:
        """The reason why the reply ends: as scripted, else by whether it has calls."""
        return self._reply.finish or ("tool_calls" if self._calls else "stop")

    def _split_text(self, text: str) -> list[str]:
        """Return the text in pieces of the reply's chunk size."""
        size = self._reply.chunk_size
        return [text[start : start + size] for start in range(0, len(text), size)]

    def _call_events(self, place: int, call: ScriptedCall) -> list[tuple[JsonObject, int | None]]:
        """Return the events of a native call with their sizes: its head, then its arguments in
        pieces.
        """
        index = place if call.index is None else call.index
        first = {
            "index": index,
            "id": self._call_id(place, call),
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        events: list[tuple[JsonObject, int | None]] = [
            (self._delta_event({"tool_calls": [first]}), 0)
        ]
        for piece in self._split_text(_arguments_text(call)):
            part = {"index": index, "function": {"arguments": piece}}
            events.append((self._delta_event({"tool_calls": [part]}), len(piece)))
        return events

    def _call_id(self, place: int, call: ScriptedCall) -> str:
        """Return the id of a call: as scripted, else one of its place in the reply."""
        return f"scripted_{self._number}_{place}" if call.id is None else call.id

    def _delta_event(self, delta: JsonObject) -> JsonObject:
        """Return an event of the stream with this change of the message."""
        return self._make_chunk([{"index": 0, "delta": delta, "finish_reason": None}])

    def _make_chunk(self, choices: list[JsonObject]) -> JsonObject:
        """Return an event of the stream with these choices."""
        return {
            "id": f"scripted-{self._number}",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._model,
            "choices": choices,
        }

    def _count_tokens(self) -> Usage:
        """Return the token counts: as scripted, else estimated."""
        said = len(self._content) + sum(len(_arguments_text(call)) for call in self._calls)
        thought = len(self._reply.reasoning)
        return self._reply.usage or Usage(
            prompt=self._asked, reply=(said + thought) // 4 + 1, reasoning=thought // 4
        )

    def _usage_fields(self) -> JsonObject:
        """Return the token counts as chat completions has them."""
        usage = self._count_tokens()
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

        add("created", response=self._make_response("in_progress", []))
        for at, item in enumerate(self._make_items()):
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
                for piece in self._split_text(item["arguments"]):
                    add("function_call_arguments.delta", len(piece), **place, delta=piece)
                add("function_call_arguments.done", **place, arguments=item["arguments"],
                    name=item["name"])  # fmt: skip
            elif item["type"] == "reasoning":
                (part,) = item["summary"]
                place["summary_index"] = 0
                add("reasoning_summary_part.added", **place, part={**part, "text": ""})
                for piece in self._split_text(part["text"]):
                    add("reasoning_summary_text.delta", None, **place, delta=piece)
                add("reasoning_summary_text.done", **place, text=part["text"])
                add("reasoning_summary_part.done", **place, part=part)
            else:
                (part,) = item["content"]
                place["content_index"] = 0
                add("content_part.added", **place, part={**part, "text": ""})
                for piece in self._split_text(part["text"]):
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
        """Return the JSON of the whole response, for a request that does not stream."""
        status = "incomplete" if self._reply.finish else "completed"
        body = self._make_response(status, self._make_items())
        if self._reply.send_usage:
            usage = self._count_tokens()
            body["usage"] = {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
                "output_tokens": usage.reply,
                "output_tokens_details": {"reasoning_tokens": usage.reasoning},
                "total_tokens": usage.prompt + usage.reply,
            }
        return json.dumps(body, ensure_ascii=False)

    def _make_items(self) -> list[JsonObject]:
        """Return the output's items: reasoning, the message, then the calls, each where there is
        one.
        """
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
                {"type": "function_call", "status": "completed",
                 "call_id": self._call_id(place, call), "name": call.name,
                 "arguments": _arguments_text(call)}
            )  # fmt: skip
        return [{"id": f"item_{self._number}_{at}", **item} for at, item in enumerate(items)]

    def _make_response(self, status: str, output: list[JsonObject]) -> JsonObject:
        """Return the response object with this status and output."""
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


def _arguments_text(call: ScriptedCall) -> str:
    """Return the arguments of a call as text."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)
