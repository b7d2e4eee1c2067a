"""What a call cost: counts from the endpoint, or our own estimate where it sent none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duckflow_tui.llm.codec import WireRequest
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.state.base import Clock, canonical_json
from duckflow_tui.state.usage import CallOutcome, LlmCall, Purpose, Role

_MILLION: Final = 1_000_000
# Scripts that tokenizers cut into about one token a character; others give about four to one.
_DENSE: Final = re.compile(
    "[\u0e00-\u0eff\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef]"
)
_CHARS_A_TOKEN: Final = 4
_MESSAGE_OVERHEAD: Final = 4  # tokens around each message: its role and separators


def estimated_tokens(text: str) -> int:
    """Tokens of a text, judged by its script: Japanese one a character, English one in four."""
    if text.isascii():
        return -(-len(text) // _CHARS_A_TOKEN)
    dense = len(_DENSE.findall(text))
    return dense + -(-(len(text) - dense) // _CHARS_A_TOKEN)


@dataclass(slots=True)
class Account:
    """Keeps the books of one call, over all its requests."""

    llm_id: str
    role: Role
    purpose: Purpose
    endpoint: Endpoint
    model: str
    clock: Clock
    started: float  # monotonic
    attempts: int = 0
    request: WireRequest | None = None

    def close(
        self, outcome: CallOutcome, completion: Completion | None, error: str = ""
    ) -> LlmCall:
        """The finished record; ``completion`` is what arrived of an answer, None for nothing."""
        tokens_in, tokens_out, cached, reasoning, estimated = self._tokens(completion)
        first = completion.first_token_at if completion is not None else None
        return LlmCall(
            llm_id=self.llm_id,
            role=self.role,
            purpose=self.purpose,
            endpoint=self.endpoint.name,
            model=self.model,
            tokens_in=tokens_in,
            tokens_cached=cached,
            tokens_out=tokens_out,
            tokens_reasoning=reasoning,
            estimated=estimated,
            cost=self._cost(tokens_in, tokens_out),
            duration_s=max(self.clock.monotonic() - self.started, 0.0),
            first_token_s=None if first is None else max(first - self.started, 0.0),
            outcome=outcome,
            error=error,
            attempts=max(self.attempts, 1),
        )

    def _tokens(self, completion: Completion | None) -> tuple[int, int, int, int, bool]:
        """In, out, cached, reasoning, estimated."""
        if completion is None or not (completion.started or completion.usage):
            return 0, 0, 0, 0, False
        usage = completion.usage
        if usage is not None and usage.prompt_tokens:
            tokens = usage.prompt_tokens, usage.completion_tokens
            return *tokens, usage.cached, usage.reasoning, False
        reasoning = estimated_tokens(completion.reasoning)
        said = estimated_tokens(completion.text) + sum(
            estimated_tokens(call.name + call.argument_text) for call in completion.calls
        )
        return self._asked(), said + reasoning, 0, reasoning, True

    def _asked(self) -> int:
        request = self.request
        if request is None:
            return 0
        messages = sum(
            estimated_tokens(str(message.get("content") or ""))
            + (
                estimated_tokens(canonical_json(message["tool_calls"]))
                if "tool_calls" in message
                else 0
            )
            + _MESSAGE_OVERHEAD
            for message in request.messages
        )
        return messages + (estimated_tokens(canonical_json(request.tools)) if request.tools else 0)

    def _cost(self, tokens_in: int, tokens_out: int) -> float | None:
        price_in, price_out = self.endpoint.price_in, self.endpoint.price_out
        if price_in is None and price_out is None:
            return None
        return (tokens_in * (price_in or 0.0) + tokens_out * (price_out or 0.0)) / _MILLION
