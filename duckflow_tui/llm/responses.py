"""The Responses API: converts a chat request to it, and fills a Completion from its events.

The rest of the program only knows chat completions. Items of the model's output, which this API
wants back unchanged, are stored in the ``Thought`` of a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

from openai import BaseModel
from openai.types.responses import Response

from duckflow_tui.llm.codec import DECIDE
from duckflow_tui.llm.codec_tools import NOT_EXECUTED, NOTED
from duckflow_tui.llm.completion import OUTPUT, Completion
from duckflow_tui.llm.errors import FailureTeller, LlmError
from duckflow_tui.llm.wire import WireCall, WireFunction, WireMessage, wire_text
from duckflow_tui.state.base import JsonObject, canonical_json

_TEXT_DELTAS: Final = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT_DELTAS: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_BREAK: Final = "\n\n"  # between the parts of a text
#: HTTP statuses of failed responses by their code; 500 for all others.
_STATUSES: Final = {"rate_limit_exceeded": 429, "invalid_prompt": 400}


# --- the request ----------------------------------------------------------------------------------


def write_request(body: JsonObject) -> JsonObject:
    """Convert the body of a chat completion to this API. Fields with the same name there are
    unchanged.
    """
    made: JsonObject = {**body, "store": False}
    messages: list[JsonObject] = made.pop("messages")
    if messages and messages[0]["role"] == "system":
        made["instructions"], messages = messages[0]["content"], messages[1:]
    made["input"] = _write_items(messages)
    if "tools" in made:
        # Where it is left out, ``strict`` counts as true: then no argument may be optional.
        made["tools"] = [
            {"type": "function", "strict": False, **tool["function"]} for tool in made["tools"]
        ]
    form: JsonObject | None = made.pop("response_format", None)
    if form is not None:
        made["text"] = {"format": {"type": form["type"], **form.get("json_schema", {})}}
    reasoning = {name: made.pop(f"reasoning_{name}", None) for name in ("effort", "summary")}
    if any(reasoning.values()):
        made["reasoning"] = {name: value for name, value in reasoning.items() if value}
    return made


def _write_items(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Convert messages to items. The results that follow a reply are written together with it."""
    items: list[JsonObject] = []
    seen = set[str]()  # ids of calls: one that comes twice cannot be told apart
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            results: dict[str, str] = {}
            for behind in messages[at + 1 :]:
                if behind["role"] != "tool":
                    break
                results[behind["tool_call_id"]] = behind["content"]
            items += _write_reply(message, results, seen)
        elif message["role"] != "tool":
            content = message["content"]
            if isinstance(content, list):
                content = [*map(_write_part, cast("list[JsonObject]", content))]
            items.append({"type": "message", "role": message["role"], "content": content})
    return items


def _write_part(part: JsonObject) -> JsonObject:
    """Convert a part of a message (text or picture) to this API."""
    if part["type"] == "text":
        return {"type": "input_text", "text": part["text"]}
    return {"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"}


def _write_reply(message: JsonObject, results: dict[str, str], seen: set[str]) -> list[JsonObject]:
    """Return the original items of a reply, or new ones if they do not match its calls, followed by
    the result of each call. ``seen`` collects call ids.
    """
    calls: list[JsonObject] = message.get("tool_calls") or []
    items: list[JsonObject] = message.get(OUTPUT) or []
    ids = {call["id"] for call in calls if call["function"]["name"] != DECIDE}
    came = [item["call_id"] for item in items if item["type"] == "function_call"]
    if not items or not ids <= set(came) or len({*came} - seen) < len(came) or (came and not calls):
        items = []
        if message["content"]:
            part: JsonObject = {
                "type": "output_text",
                "text": message["content"],
                "annotations": [],
            }
            items.append({"type": "message", "role": "assistant", "content": [part]})
        for call in calls:
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    outputs: list[JsonObject] = []
    for item in items:
        if item["type"] == "function_call":
            call_id = item["call_id"]
            seen.add(call_id)
            came_of_it = NOTED if item["name"] == DECIDE else results.get(call_id, NOT_EXECUTED)
            outputs.append(
                {"type": "function_call_output", "call_id": call_id, "output": came_of_it}
            )
    return [*items, *outputs]


# --- the response ---------------------------------------------------------------------------------


class ResponseReader:
    """Fills a completion from the events of a response, or from a whole one. Tolerates servers that
    omit indexes, single events or final items. Text is shown as it arrives; calls are added when
    complete.
    """

    def __init__(self, completion: Completion, teller: FailureTeller) -> None:
        self._completion = completion
        self._teller = teller
        self._is_streamed = False  # pieces of the item on its way have come

    def take_event(self, event: object) -> bool:
        """Process the next event; return True if it is the last. Raises LlmError for a failure."""
        if not isinstance(event, BaseModel):
            return False
        kind, delta = getattr(event, "type", ""), getattr(event, "delta", None)
        text = delta if isinstance(delta, str) else ""
        match kind:
            case _ if kind in _TEXT_DELTAS:
                self._take_text(text)
                self._is_streamed = True
            case _ if kind in _THOUGHT_DELTAS:
                self._take_thought(text)
                self._is_streamed = True
            case "response.function_call_arguments.delta":
                self._completion.note_piece()
            case "response.reasoning_summary_part.added" if self._is_streamed:
                self._take_thought(_BREAK)
            case "response.output_item.done":
                self._take_item(_fields_of(getattr(event, "item", None)))
            case "response.completed" | "response.incomplete" | "response.failed":
                self.take_response(getattr(event, "response", None))
                return True
            case "error":
                raise self._make_error(_fields_of(event))
            case _:
                pass
        return False

    def take_response(self, response: object) -> None:
        """Process a whole response, or the final event of a stream, whose output counts only if no
        item came before it; then end the completion. Raises LlmError if the response failed.
        """
        fields = _fields_of(response)
        completion = self._completion
        error: object = fields.get("error")
        if error or fields.get("status") == "failed":
            words = cast("JsonObject", error) if isinstance(error, dict) else {"message": error}
            raise self._make_error(words)
        if not completion.items:
            for item in _list_of(fields.get("output")):
                self._take_item(item)
        if isinstance(usage := fields.get("usage"), dict):
            completion.take_usage(cast("JsonObject", usage))
        if fields.get("status") == "incomplete":
            details = fields.get("incomplete_details")
            reason = cast("JsonObject", details).get("reason") if isinstance(details, dict) else ""
            completion.finish_words = str(reason)
            completion.end("content_filter" if reason == "content_filter" else "length")
        else:
            completion.end("tool_calls" if completion.calls else "stop")
        completion.ended = True

    def _make_error(self, words: JsonObject) -> LlmError:
        """Make the error of a failed response; its code is mapped to an HTTP status."""
        status = _STATUSES.get(str(words.get("code")), 500)
        return self._teller.stream_error({**words, "status": status})

    def _take_item(self, item: JsonObject) -> None:
        """Store a complete item, and add its content unless that was streamed already."""
        content: object = item.get("content")
        parts = [*_list_of(item.get("summary")), *_list_of(content)]
        texts = [str(part.get("text") or part.get("refusal") or "") for part in parts]
        text = content if isinstance(content, str) else _BREAK.join(texts)
        was_streamed, self._is_streamed = self._is_streamed, False
        match item.get("type"):
            case "reasoning":
                if not was_streamed:
                    self._take_thought(text)
                # By its id alone nobody finds it again: nothing is stored.
                if not (item.get("encrypted_content") or item.get("content")):
                    return
            case "message":
                if not was_streamed:
                    self._take_text(text)
            case "function_call":
                name, arguments = str(item.get("name") or ""), item.get("arguments")
                call_id = str(item.get("call_id") or item.get("id") or "")
                item = {**item, "name": name, "call_id": call_id}
                if not isinstance(arguments, str):
                    item["arguments"] = canonical_json(arguments or {})
                function = WireFunction(name=name, arguments=item["arguments"])
                call = WireCall(index=len(self._completion.calls), id=call_id, function=function)
                self._completion.add_message(WireMessage(tool_calls=[call]))
            case _:  # of a tool that the server runs itself
                return
        self._completion.items.append(item)

    def _take_text(self, text: str) -> None:
        """Add text of the answer, separated from the previous item."""
        if not self._is_streamed and self._completion.text:
            text = f"{_BREAK}{text}"
        self._completion.add_message(WireMessage.model_construct(content=text))

    def _take_thought(self, text: str) -> None:
        """Add reasoning, separated from the previous item."""
        if not self._is_streamed and self._completion.reasoning:
            text = f"{_BREAK}{text}"
        self._completion.add_message(WireMessage.model_construct(reasoning_content=text))


def read_response(data: object) -> Response:
    """Build a response from a JSON body without validation, also if fields are missing; raises
    ValueError if it is not an object.
    """
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    return Response.construct(**cast("JsonObject", data))


def _fields_of(value: object) -> JsonObject:
    """Return the fields of a value from the client library as JSON, with lone surrogates replaced;
    empty for other values. Raises ValueError for NaN and infinity.
    """
    if not isinstance(value, BaseModel):
        return {}
    fields = value.to_dict(warnings=False)
    written = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    return json.loads(wire_text(written))


def _list_of(value: object) -> list[JsonObject]:
    """Return the objects in a list; empty if it is not a list."""
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", entry) for entry in entries if isinstance(entry, dict)]
