"""Providers that are asked over the net, with the rules that each alone has."""

from __future__ import annotations

import json
import re
from typing import Any

from support.zoo import SAID, Provider, Spoken, asked_for, calls_of, events, messages_of, refusal

from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.base import JsonObject


class OpenAi(Provider):
    """A reasoning model of an account that is not verified.

    Rests on OpenAI's reference of the Responses API and on what users of it report in 2025 and
    2026: the texts of these refusals are copied from there. By chat completions, native calls
    together with any effort but ``none`` are refused, and so is the default.
    """

    model = "gpt-5.6-terra"

    def __init__(self, *spoken: Spoken) -> None:
        super().__init__(*spoken)
        self.made: dict[str, JsonObject] = {}  # items of its replies, by id

    def answer(self, request: Request) -> Reply | None:
        if request.method != "POST" or request.path != f"{self.base}/responses":
            return super().answer(request)
        wrong = self.locked(request) or self.refuses_fields(request.json) or self.refuses_items(
            request.json["input"]
        )  # fmt: skip
        if wrong is not None:
            assert wrong.fault is not None
            self.broken.append(wrong.fault.body or "")
            return wrong
        if request.purpose != "main":
            return None
        self.sent.append(request.json)
        self.said += 1
        asked = len(request.raw) // 4
        self.counts.append((asked, SAID, asked // 2))
        return refusal(200, self.response(self.spoken.popleft()))

    def checked(self, body: JsonObject) -> Reply | None:
        if body.get("tools") and body.get("reasoning_effort") != "none":
            return self.error(
                400, f"Function tools with reasoning_effort are not supported for {self.model} in "
                "/v1/chat/completions. To use function tools, use /v1/responses or set "
                "reasoning_effort to 'none'.", param="reasoning_effort",
            )  # fmt: skip
        return None

    def refuses_fields(self, body: JsonObject) -> Reply | None:
        if body.get("stream"):
            return self.error(
                400, "Your organization must be verified to stream this model. Please go to: "
                "https://platform.openai.com/settings/organization/general and click on Verify "
                "Organization. If you just verified, it can take up to 15 minutes for access to "
                "propagate.", param="stream", code="unsupported_value",
            )  # fmt: skip
        if asked_for(body, "reasoning").get("summary"):
            return self.error(
                400, "Your organization must be verified to generate reasoning summaries. Please go"
                " to: https://platform.openai.com/settings/organization/general and click on Verify"
                " Organization.", param="reasoning.summary", code="unsupported_value",
            )  # fmt: skip
        if "temperature" in body:
            return self.error(
                400, "Unsupported parameter: 'temperature' is not supported with this model.",
                param="temperature",
            )  # fmt: skip
        moved = {"max_tokens": "max_output_tokens", "response_format": "text.format",
                 "reasoning_effort": "reasoning.effort"}  # fmt: skip
        for name in moved.keys() & body.keys():
            words = f"Unsupported parameter: '{name}'. In the Responses API, this parameter has "
            return self.error(400, f"{words}moved to '{moved[name]}'.", param=name)
        for at, tool in enumerate(body.get("tools", ())):
            if "name" not in tool:
                return self.error(400, f"Missing required parameter: 'tools[{at}].name'.")
            assert tool["strict"] is False  # else no argument might be left out
        assert body["store"] is False
        return None

    def refuses_items(self, items: list[JsonObject]) -> Reply | None:
        """Calls and results belong together, and what was made with reasoning comes with it."""
        called, answered = set[str](), set[str]()
        for at, item in enumerate(items):
            if (made := self.made.get(item.get("id", ""))) is not None:
                assert item == made, "an item was changed"
            match item["type"]:
                case "function_call":
                    called.add(item["call_id"])
                case "function_call_output":
                    if item["call_id"] not in called:
                        return self.error(400, "No tool call found for function call output with "
                                          f"call_id {item['call_id']}.", param="input")  # fmt: skip
                    answered.add(item["call_id"])
                case "reasoning":
                    assert item["encrypted_content"]
                    behind = items[at + 1] if at + 1 < len(items) else {}
                    if behind.get("id") not in self.made:
                        return self.error(400, f"Item '{item['id']}' of type 'reasoning' was "
                                          "provided without its required following item.",
                                          param="input")  # fmt: skip
                case _:
                    assert item["content"], "an empty message"
        for call_id in sorted(called - answered):
            return self.error(400, f"No tool output found for function call {call_id}.",
                              param="input")  # fmt: skip
        return None

    def response(self, spoken: Spoken) -> JsonObject:
        """A whole response; its items are known again when they come back."""
        items: list[JsonObject] = []
        if spoken.thought:
            items.append({"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo+/="})
        if spoken.text:
            part: JsonObject = {"type": "output_text", "text": spoken.text, "annotations": []}
            items.append({"type": "message", "role": "assistant", "phase": "commentary",
                          "status": "completed", "content": [part]})  # fmt: skip
        for place, (name, given) in enumerate(spoken.calls):
            items.append({"type": "function_call", "status": "completed", "name": name,
                          "call_id": self.call_id(place, name),
                          "arguments": json.dumps(given, indent=1)})  # fmt: skip
        for at, item in enumerate(items):
            item["id"] = f"{item['type'][:2]}_{self.said:03}{at}"
            self.made[item["id"]] = item
        asked, said, cached = self.counts[-1]
        usage: JsonObject = {
            "input_tokens": asked, "output_tokens": said, "total_tokens": asked + said,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        return {"id": f"resp_{self.said}", "object": "response", "created_at": 1,
                "model": self.model, "status": "completed", "output": items, "usage": usage,
                "error": None, "incomplete_details": None}  # fmt: skip


class Azure(Provider):
    """Rests on Microsoft's reference of the data plane: the deployment in the path, the version in
    the query, the key in ``api-key``; a first event about the prompt without a choice, and filter
    results beside each choice.
    """

    model = "my-deployment"
    base = "/openai/deployments/my-deployment"
    query = "?api-version=2024-10-21"

    def answer(self, request: Request) -> Reply | None:
        if "api-version=2024-10-21" not in request.path:
            return refusal(404, {"error": {"code": "404", "message": "Resource not found"}})
        return super().answer(request)

    def locked(self, request: Request) -> Reply | None:
        return None if request.headers.get("api-key") == self.key else self.wrong_key()

    def wrong_key(self) -> Reply:
        words = ("Access denied due to invalid subscription key or wrong API endpoint. Make sure to"
                 " provide a valid key for an active subscription and use a correct regional API "
                 "endpoint for your resource.")  # fmt: skip
        return refusal(401, {"error": {"code": "401", "message": words}})

    def nowhere(self, request: Request) -> Reply:
        words = "The API deployment for this resource does not exist."
        return refusal(404, {"error": {"code": "DeploymentNotFound", "message": words}})

    def chunk(self, delta: JsonObject, finish: str | None = None, **fields: Any) -> JsonObject:
        made = super().chunk(delta, finish, **fields)
        made["choices"][0]["content_filter_results"] = {"hate": {"filtered": False}}
        return made

    def stream(self, spoken: Spoken, body: JsonObject) -> Reply:
        about: JsonObject = {
            "choices": [],
            "created": 0,
            "id": "",
            "model": "",
            "object": "",
            "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
        }
        first = events([about], done=False)
        rest = super().stream(spoken, body)
        return rest.model_copy(update={"raw": first.raw + rest.raw})


class Bedrock(Provider):
    """Claude behind a gateway that makes a block of each text. Rests on what users of such gateways
    report; the words are those of the service.
    """

    model = "claude-opus-4-6"

    def checked(self, body: JsonObject) -> Reply | None:
        if all(message["content"] != "" for message in messages_of(body)):
            return None
        words = ("InvokeModelWithResponseStream: operation error Bedrock Runtime: https response "
                 "error StatusCode: 400, ValidationException: messages: text content blocks must "
                 "be non-empty")  # fmt: skip
        return self.error(400, words, type="aws_invoke_error", param="")


class OpenRouter(Provider):
    """Rests on its documents of streaming, reasoning and errors: comments while it waits, thoughts
    in ``reasoning`` and ``reasoning_details``, which a model that signs them wants back with the
    calls they led to; the counts in a last event whose choice is empty.
    """

    model = "anthropic/claude-sonnet-4.5"
    base = "/api/v1"

    def wrong_key(self) -> Reply:
        return refusal(401, {"error": {"message": "No cookie auth credentials found", "code": 401}})

    def unknown(self, model: str) -> Reply:
        words = f"{model} is not a valid model ID"
        return refusal(400, {"error": {"message": words, "code": 400}, "user_id": "user_1"})

    def checked(self, body: JsonObject) -> Reply | None:
        since = [m["role"] for m in messages_of(body)]
        last = max((at for at, role in enumerate(since) if role == "user"), default=0)
        for at, message in enumerate(messages_of(body)):
            details: list[JsonObject] = message.get("reasoning_details") or []
            if any(one.get("signature", "c2ln") != "c2ln" for one in details):
                raw = f"messages.{at}.content.0: Invalid `signature` in `thinking` block"
                return self.upstream(400, raw)
            thinks = self.said and at > last and calls_of(message)
            if thinks and not details:
                raw = f"messages.{at}.content.0.type: Expected `thinking`, but found `tool_use`"
                return self.upstream(400, raw)
        return None

    def upstream(self, status: int, raw: str) -> Reply:
        """What the provider behind it said."""
        inner = {"type": "error", "error": {"type": "invalid_request_error", "message": raw}}
        about = {"raw": json.dumps(inner), "provider_name": "Anthropic"}
        error = {"message": "Provider returned error", "code": status, "metadata": about}
        return refusal(status, {"error": error})

    def chunk(self, delta: JsonObject, finish: str | None = None, **fields: Any) -> JsonObject:
        spoken = {"role": "assistant", "content": "", **delta}
        made = super().chunk(spoken, finish, provider="Anthropic", **fields)
        made["choices"][0]["native_finish_reason"] = finish
        return made

    def thinking(self, spoken: Spoken) -> list[JsonObject]:
        kind = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        half = len(spoken.thought) // 2
        made = [
            self.chunk({"reasoning": text, "reasoning_details": [{**kind, "text": text}]})
            for text in (spoken.thought[:half], spoken.thought[half:])
        ]
        return [*made, self.chunk({"reasoning_details": [{**kind, "signature": "c2ln"}]})]

    def stream(self, spoken: Spoken, body: JsonObject) -> Reply:
        made = super().stream(spoken, body)
        waits = (": OPENROUTER PROCESSING\n\n",) * 3
        return made.model_copy(update={"raw": waits + made.raw})

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        return [self.chunk({}, finish), self.chunk({}, None, usage={**self.usage(), "cost": 0.01})]


class PoorOpenRouter(OpenRouter):
    """The same with little credit left: without a limit, it reckons with the longest reply."""

    def checked(self, body: JsonObject) -> Reply | None:
        asked = body.get("max_tokens", 65536)
        if asked <= 3919:
            return super().checked(body)
        words = (f"This request requires more credits, or fewer max_tokens. You requested up to "
                 f"{asked} tokens, but can only afford 3919. To increase, visit https://openrouter."
                 "ai/settings/credits and upgrade to a paid account")  # fmt: skip
        error = {"message": words, "code": 402, "metadata": {"provider_name": None}}
        return refusal(402, {"error": error})


class DeepSeek(Provider):
    """V4, which thinks. Rests on DeepSeek's guides of thinking and of errors: thoughts of every
    message with calls go back in all later requests; ``prompt_cache_hit_tokens``; comments while
    it is busy.
    """

    model = "deepseek-v4-pro"
    base = ""

    def wrong_key(self) -> Reply:
        words = "Authentication Fails, Your api key: ****cdef is invalid"
        return self.error(401, words, type="authentication_error", code="invalid_request_error")

    def unknown(self, model: str) -> Reply:
        return self.error(400, "Model Not Exist", code="invalid_request_error")

    def checked(self, body: JsonObject) -> Reply | None:
        for message in messages_of(body):
            if calls_of(message) and not message.get("reasoning_content"):
                words = "The `reasoning_content` in the thinking mode must be passed back"
                return self.error(400, f"{words} to the API.", code="invalid_request_error")
        return None

    def thinking(self, spoken: Spoken) -> list[JsonObject]:
        words = re.findall(r"\s*\S+", spoken.thought)
        return [self.chunk({"content": None, "reasoning_content": word}) for word in words]

    def stream(self, spoken: Spoken, body: JsonObject) -> Reply:
        made = super().stream(spoken, body)
        return made.model_copy(update={"raw": (": keep-alive\n\n", *made.raw)})

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        return [self.chunk({"content": "", "reasoning_content": None}, finish, usage=self.usage())]

    def usage(self) -> JsonObject:
        asked, said, cached = self.counts[-1]
        return {
            "prompt_tokens": asked,
            "completion_tokens": said,
            "total_tokens": asked + said,
            "prompt_cache_hit_tokens": cached,
            "prompt_cache_miss_tokens": asked - cached,
        }


class Kimi(Provider):
    """K2.6, which thinks. Rests on Moonshot's documents and on what users report: one temperature,
    thoughts in every message with calls, ids that name the function, and the counts inside the
    last choice.
    """

    model = "kimi-k2.6"

    def wrong_key(self) -> Reply:
        words = {"message": "Invalid Authentication", "type": "invalid_authentication_error"}
        return refusal(401, {"error": words})

    def unknown(self, model: str) -> Reply:
        words = {"message": f"Not found the model {model} or Permission denied",
                 "type": "resource_not_found_error"}  # fmt: skip
        return refusal(404, {"error": words})

    def checked(self, body: JsonObject) -> Reply | None:
        words = ""
        if body.get("temperature", 1) != 1:
            words = "invalid temperature: only 1 is allowed for this model"
        for at, message in enumerate(messages_of(body)):
            if calls_of(message) and not message.get("reasoning_content"):
                words = ("thinking is enabled but reasoning_content is missing in assistant tool "
                         f"call message at index {at}")  # fmt: skip
        error = {"message": words, "type": "invalid_request_error"}
        return refusal(400, {"error": error}) if words else None

    def call_id(self, place: int, name: str) -> str:
        return f"{name[:30]}:{place}"

    def thinking(self, spoken: Spoken) -> list[JsonObject]:
        return [self.chunk({"reasoning_content": spoken.thought})] if spoken.thought else []

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        made = self.chunk({}, finish)
        made["choices"][0]["usage"] = self.usage()
        return [made]

    def usage(self) -> JsonObject:
        asked, said, cached = self.counts[-1]
        return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said,
                "cached_tokens": cached}  # fmt: skip


class Gemini(Provider):
    """Gemini 3. Rests on Google's documents of thought signatures and of its compatibility with
    OpenAI, and on reports of its streams: errors inside a list, a signature at the first call of
    each step of the turn, calls whole with index 0 and an empty id, ``stop`` behind calls.
    """

    model = "gemini-3-pro-preview"
    base = "/v1beta/openai"

    def error(self, status: int, message: str, **fields: Any) -> Reply:
        kind = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}
        error = {"code": status, "message": message, "status": kind.get(status, "UNAVAILABLE")}
        return refusal(status, [{"error": {**error, **fields}}])

    def wrong_key(self) -> Reply:
        why = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
        return self.error(400, "API key not valid. Please pass a valid API key.", details=why)

    def unknown(self, model: str) -> Reply:
        words = f"models/{model} is not found for API version v1main, or is not supported for"
        return self.error(404, f"{words} generateContent.")

    def checked(self, body: JsonObject) -> Reply | None:
        messages = messages_of(body)
        last = max((at for at, m in enumerate(messages) if m["role"] == "user"), default=0)
        if messages[last - 1]["role"] == "tool":  # it is part of the step
            last = max(at for at, m in enumerate(messages[: last - 1]) if m["role"] == "user")
        for at, message in enumerate(messages):
            first = next(iter(calls_of(message)), None)
            if at < last or first is None:
                continue
            google = asked_for(asked_for(first, "extra_content"), "google")
            if not google.get("thought_signature"):
                words = "Function call is missing a thought_signature in functionCall parts. This"
                return self.error(400, f"{words} is required for tools to work correctly.")
        return None

    def chunk(self, delta: JsonObject, finish: str | None = None, **fields: Any) -> JsonObject:
        return super().chunk({"role": "assistant", **delta}, finish, usage=self.usage(), **fields)

    def call(self, place: int, name: str, given: JsonObject) -> list[JsonObject]:
        function = {"name": name, "arguments": json.dumps(given)}
        call: JsonObject = {"index": 0, "id": "", "type": "function", "function": function}
        if place == 0:
            signature = {"thought_signature": f"c2ln{self.said}=="}
            call["extra_content"] = {"google": signature}
        return [self.chunk({"tool_calls": [call]})]

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        return [self.chunk({}, "stop")]


class Groq(Provider):
    """Rests on Groq's documents and on what users report: its limits in headers, the counts in
    ``x_groq`` of the last event, thoughts of others refused by name.
    """

    model = "llama-3.3-70b-versatile"
    base = "/openai/v1"

    def wrong_key(self) -> Reply:
        return self.error(401, "Invalid API Key", code="invalid_api_key")

    def checked(self, body: JsonObject) -> Reply | None:
        for at, message in enumerate(messages_of(body)):
            for name in ("reasoning_content", "reasoning_details", "extra_content"):
                if name in message:
                    words = (
                        f"'messages.{at}' : for 'role:assistant' the following must be "
                        f"satisfied[('messages.{at}' : property '{name}' is unsupported)]"
                    )
                    return self.error(400, words)
        return None

    def failed(self, generation: str) -> Reply:
        """What its own model wrote is no call that it takes; in the stream, as it says it there."""
        words = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for"
        error = {"message": f"{words} more details.", "type": "invalid_request_error",
                 "code": "tool_use_failed", "failed_generation": generation,
                 "status_code": 400}  # fmt: skip
        return events([f"event: error\ndata: {json.dumps({'error': error})}\n\n"], done=False)

    def call_id(self, place: int, name: str) -> str:
        return f"fs{self.said:02}{place}abcde"

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        return [self.chunk({}, finish, x_groq={"id": "req_1", "usage": self.usage()})]


class Mistral(Provider):
    """Rests on Mistral's reference and on what users report: ids of nine letters and digits, no
    user behind a tool, unknown fields refused with a body of their own, calls whole, the counts in
    the event that ends the reply.
    """

    model = "devstral-medium-latest"

    def wrong_key(self) -> Reply:
        return refusal(401, {"detail": "Unauthorized"})

    def unknown(self, model: str) -> Reply:
        body = {"object": "error", "message": f"Invalid model: {model}", "type": "invalid_model"}
        return refusal(400, {**body, "param": None, "code": "1500"})

    def checked(self, body: JsonObject) -> Reply | None:
        if "stream_options" in body:
            wrong = {
                "type": "extra_forbidden",
                "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted",
                "input": {"include_usage": True},
            }
            return refusal(422, {"object": "error", "message": {"detail": [wrong]},
                                 "type": "invalid_request_error"})  # fmt: skip
        before = "system"
        for message in messages_of(body):
            if message["role"] == "user" and before == "tool":
                return self.wrong("Unexpected role 'user' after role 'tool'",
                                  "invalid_request_message_order", "3230")  # fmt: skip
            before = message["role"]
            for call in calls_of(message):
                if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
                    words = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a"
                    return self.wrong(f"{words} length of 9.", "invalid_function_call", "3280")
        return None

    def wrong(self, message: str, kind: str, code: str) -> Reply:
        body = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
        return refusal(400, body)

    def call_id(self, place: int, name: str) -> str:
        return f"aB{self.said:04}{place}xY"

    def call(self, place: int, name: str, given: JsonObject) -> list[JsonObject]:
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": self.call_id(place, name), "index": place, "function": function}
        return [self.chunk({"tool_calls": [call]})]

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        return [self.chunk({"content": ""}, finish, usage=self.usage())]
