"""Servers that run on the user's own machine."""

from __future__ import annotations

import json
from typing import Any

from support.zoo import Provider, Spoken, asked_for, calls_of, messages_of, refusal

from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.state.base import JsonObject


class Ollama(Provider):
    """Rests on its documented compatibility with OpenAI and on its source, ``openai/openai.go``:
    the role in every chunk, a call in one piece, ``reasoning`` for thoughts, no key, no cached
    tokens in usage.
    """

    model = "qwen3:8b"
    others = ("gemma3:4b",)
    key = ""

    def unknown(self, model: str) -> Reply:
        words = f'model "{model}" not found, try pulling it first'
        return self.error(404, words, type="api_error")

    def chunk(self, delta: JsonObject, finish: str | None = None, **fields: Any) -> JsonObject:
        spoken = {"role": "assistant", "content": "", **delta}
        return super().chunk(spoken, finish, **{"system_fingerprint": "fp_ollama", **fields})

    def thinking(self, spoken: Spoken) -> list[JsonObject]:
        return [self.chunk({"reasoning": spoken.thought})] if spoken.thought else []

    def call(self, place: int, name: str, given: JsonObject) -> list[JsonObject]:
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"id": f"call_{self.said}{place}x3k9a2", "index": place, "type": "function"}
        return [self.chunk({"tool_calls": [{**call, "function": function}]})]

    def usage(self) -> JsonObject:
        counts = super().usage()
        del counts["prompt_tokens_details"]
        return counts


class LmStudio(Provider):
    """Rests on the errors of its bug tracker: a bare text as ``error``, 404 where no model is
    loaded, ``json_object`` refused; and on its documents of tool use: ids of nine digits.
    """

    model = "qwen/qwen3-8b"
    others = ("google/gemma-3-4b",)
    key = ""

    def unknown(self, model: str) -> Reply:
        words = (f'Invalid model identifier "{model}". Please specify a valid downloaded model '
                 f"(e.g. {self.model}, {self.others[0]}).")  # fmt: skip
        return self.error(404, words, param="model", code="model_not_found")

    def checked(self, body: JsonObject) -> Reply | None:
        if asked_for(body, "response_format").get("type") == "json_object":
            words = "'response_format.type' must be 'json_schema' or 'text'"
            return refusal(400, {"error": words})
        return None

    def call_id(self, place: int, name: str) -> str:
        return f"{self.said * 1000 + place:09}"


class LlamaCpp(Provider):
    """Rests on the source of llama-server (``tools/server``): error bodies with a number as code,
    ``timings`` beside usage; and on the chat template of Devstral, which takes user and assistant
    in turn and looks at neither calls nor their results.
    """

    model = "devstral-small"

    def wrong_key(self) -> Reply:
        body = {"message": "Invalid API Key", "type": "authentication_error", "code": 401}
        return refusal(401, {"error": body})

    def checked(self, body: JsonObject) -> Reply | None:
        spoken = [
            message["role"]
            for message in messages_of(body)
            if message["role"] == "user"
            or (message["role"] == "assistant" and not calls_of(message))
        ]
        if all((role == "user") == (at % 2 == 0) for at, role in enumerate(spoken)):
            return None
        words = ("\n------------\nWhile executing CallExpression at line 28, column 27 in source:"
                 "\n...raise_exception('After the optional system message, conversation roles must "
                 "alternate user/assistant/user/assistant/...')\nError: Jinja Exception: After the "
                 "optional system message, conversation roles must alternate "
                 "user/assistant/user/assistant/...")  # fmt: skip
        return refusal(500, {"error": {"code": 500, "message": words, "type": "server_error"}})

    def call_id(self, place: int, name: str) -> str:
        return f"{self.said:02}{place}JdGm5ne2BOWYbu7tn7gc1qjUEZKV3"

    def ending(self, finish: str, body: JsonObject) -> list[JsonObject]:
        made = super().ending(finish, body)
        made[-1]["timings"] = {"prompt_n": 30, "predicted_per_second": 41.5}
        return made


class SmallLlama(LlamaCpp):
    """The same server started with a window of 2,200 tokens, of which nobody was told."""

    def checked(self, body: JsonObject) -> Reply | None:
        asked = estimate_tokens(json.dumps(body, ensure_ascii=False))
        if asked <= 2216:
            return super().checked(body)
        words = (f"request ({asked} tokens) exceeds the available context size (2200 tokens), try "
                 "increasing it")  # fmt: skip
        error = {"code": 400, "message": words, "type": "exceed_context_size_error",
                 "n_prompt_tokens": asked, "n_ctx": 2200}  # fmt: skip
        return refusal(400, {"error": error})


class LlamaCppPython(LlamaCpp):
    """llama-cpp-python's server with a small window, which a stream does not tell: it ends there
    without an event.
    """

    def checked(self, body: JsonObject) -> Reply | None:
        asked = estimate_tokens(json.dumps(body, ensure_ascii=False))
        if asked <= 2216:
            return super().checked(body)
        if body.get("stream"):
            return Reply(raw=("",))
        words = (f"This model's maximum context length is 2216 tokens. However, you requested "
                 f"{asked} tokens ({asked} in the messages, None in the completion). Please reduce "
                 "the length of the messages or completion.")  # fmt: skip
        return self.error(400, words, code="context_length_exceeded", param="messages")


class Gemma(LlamaCpp):
    """A template for which the result of a call is one more message of the user, as several of the
    family have it: only JSON, which joins results, comes through.
    """

    model = "gemma-3-27b-it"

    def checked(self, body: JsonObject) -> Reply | None:
        made = [message for message in messages_of(body) if message["role"] != "system"]
        if all((m["role"] in ("user", "tool")) == (at % 2 == 0) for at, m in enumerate(made)):
            return None
        words = ("\n------------\nWhile executing CallExpression at line 19, column 27 in source:"
                 "\n...% 2 == 0) -%}↵      {{ raise_exception(\"Conversation roles must alternate "
                 "user...\n                                           ^\nError: Jinja Exception: "
                 "Conversation roles must alternate user/assistant/user/assistant/...")  # fmt: skip
        return refusal(500, {"error": {"code": 500, "message": words, "type": "server_error"}})


class Vllm(Provider):
    """Rests on its source (``entrypoints/openai``): ids ``chatcmpl-tool-…``, ``error`` as a bare
    text for a wrong key, ``NotFoundError`` with a number as code.
    """

    model = "Qwen/Qwen3-Coder-30B-A3B-Instruct"

    def wrong_key(self) -> Reply:
        return refusal(401, {"error": "Unauthorized"})

    def unknown(self, model: str) -> Reply:
        words = f"The model `{model}` does not exist."
        return self.error(404, words, type="NotFoundError", param="model", code=404)

    def call_id(self, place: int, name: str) -> str:
        return f"chatcmpl-tool-{self.said:03}{place}e1ad5f2c9b7a4d"

    def usage(self) -> JsonObject:
        return {**super().usage(), "prompt_tokens_details": None}
