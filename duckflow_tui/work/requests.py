"""Keeps the parts of recent requests to models for display: token figures in the state, texts in
this process only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from duckflow_tui.llm.codec_json import RESULTS, response_format
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.service import LLMService
from duckflow_tui.llm.tokens import estimate_tokens
from duckflow_tui.llm.wire import content_text
from duckflow_tui.state.base import JsonObject, canonical_json, schema_of
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.prompt import ChatMessage, Prompt
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import (
    LlmCallStarted,
    PartName,
    PromptFigures,
    PromptMeasured,
    PromptParts,
    Role,
)

KEPT: Final = 20  # newest requests of this run whose text can be shown

_READS: Final = "file_ops."  # results of these are files


@dataclass(frozen=True, slots=True)
class SentPart:
    """A message of a request, or part of one, as it was sent; secrets are redacted."""

    part: PartName
    role: str  # system, user, assistant, tool; ``tools`` for the native calls on offer
    name: str  # the operation of a result, empty for others
    text: str
    tokens: int  # estimated


class RequestLog:
    """Logs the requests of a session. ``redact`` masks secrets in texts for display."""

    def __init__(
        self,
        store: Store,
        models: LLMService,
        redact: Callable[[str], str],
    ) -> None:
        self._store = store
        self._models = models
        self._redact = redact
        self._asked: dict[str, Prompt | None] = {}  # newest last
        self._before: dict[tuple[str, str, bool], Prompt] = {}  # of each kind of request

    def log_decision(self, prompt: Prompt, call: LlmCallStarted, role: Role) -> None:
        """Log a request for a decision before it is sent: keep its prompt and figures, with the
        tokens it shares with the previous one.
        """
        step_id = call.step_id
        kind = (call.purpose, step_id, call.aside)
        before = self._before.get(kind)
        self._before[kind] = prompt
        if step_id:  # steps run one after the other, so prompts of earlier ones are not needed
            for other in [k for k in self._before if k[1] not in ("", step_id)]:
                del self._before[other]
        shared = shared_tokens(before, prompt) if before is not None else 0
        self._asked[call.llm_id] = prompt
        self._keep_figures(call, role, prompt.parts, shared)

    def log_question(
        self,
        messages: Sequence[ChatMessage],
        call: LlmCallStarted,
        role: Role,
        shape: type[BaseModel],
    ) -> None:
        """Log a request other than for a decision before it is sent, with the tokens of its system
        text, of the rest, and of the form of its answer, ``shape``, as far as it is known that the
        server is told of it.
        """
        sizes = [(message.role, estimate_tokens(message.content)) for message in messages]
        base = sum(size for sender, size in sizes if sender == "system")
        total, form = sum(size for _, size in sizes), 0
        with suppress(LlmError):  # the call reports it
            endpoint, model = self._models.target_of(role)
            learned = self._models.learned.models[f"{endpoint.origin} {model}"]
            rung = learned.rung(endpoint.protocol, calls=False)
            if rung == "json_schema" or rung == "json_object":
                told = response_format(rung, call.purpose, schema_of(shape))
                form = estimate_tokens(canonical_json(told))
        self._asked[call.llm_id] = None  # of a question its text on the wire is all
        parts = PromptParts(base=base, operations=form, tail=total - base)
        self._keep_figures(call, role, parts, 0)

    def list_parts(self, llm_id: str) -> tuple[SentPart, ...] | None:
        """Return the parts of a sent request; None if this process no longer has them."""
        prompt, wire = self._asked.get(llm_id), self._models.sent_request(llm_id)
        if llm_id not in self._asked or wire is None:
            return None
        operations = _map_operations(prompt) if prompt is not None else {}
        found: list[SentPart] = []
        last = len(wire.messages) - 1
        for number, message in enumerate(wire.messages):
            if message.get("role") == "system" and prompt is not None:
                found += self._split_system(str(message.get("content") or ""), prompt)
            else:
                found.append(self._make_message_part(message, operations, tail=number == last))
        if wire.tools:
            text = "\n".join(canonical_json(tool) for tool in wire.tools)
            found.insert(1, self._make_part("operations", "tools", text))
        if wire.response_format is not None:
            text = canonical_json(wire.response_format)
            found.insert(1, self._make_part("operations", "format", text))
        return tuple(found)

    def _keep_figures(
        self, call: LlmCallStarted, role: Role, parts: PromptParts, shared: int
    ) -> None:
        """Record the token figures of a request in the state."""
        while len(self._asked) > KEPT:
            del self._asked[next(iter(self._asked))]
        turn = self._store.state.turn
        figures = PromptFigures(
            llm_id=call.llm_id,
            purpose=call.purpose,
            step_id=call.step_id,
            aside=call.aside,
            turn_id=turn.turn_id if turn else "",
            parts=parts,
            window=self._models.window_of(role),
            shared=shared,
            at=self._store.clock.now(),
        )
        self._store.dispatch(PromptMeasured(figures=figures))

    def _split_system(self, text: str, prompt: Prompt) -> list[SentPart]:
        """Split the system message into the parts it was composed of."""
        names: tuple[PartName, ...] = ("base", "operations", "project")
        found: list[SentPart] = []
        for name, section in zip(names, prompt.sections, strict=False):
            if section and text.startswith(section):
                found.append(self._make_part(name, "system", section))
                text = text[len(section) :].removeprefix("\n\n")
        if text:
            found.append(self._make_part("operations", "system", text))
        return found

    def _make_message_part(
        self, message: JsonObject, operations: dict[str, str], *, tail: bool
    ) -> SentPart:
        """Make the part of a message; ``tail``: it is the last message."""
        role = str(message.get("role", ""))
        text = content_text(message)
        if calls := message.get("tool_calls"):
            text = f"{text}\n{canonical_json(calls)}".strip("\n")
        if tail:
            return self._make_part("tail", role, text)
        if role == "tool":
            name = operations.get(str(message.get("tool_call_id", "")), "")
            return self._make_part(_name_part(name) if name else "chat", role, text, name)
        if role == "user" and text.startswith(RESULTS):
            return self._make_part("results", role, text)
        return self._make_part("base" if role == "system" else "chat", role, text)

    def _make_part(self, part: PartName, role: str, text: str, name: str = "") -> SentPart:
        """Make a part, with secrets masked and its tokens estimated."""
        return SentPart(part, role, name, self._redact(text), estimate_tokens(text))


def shared_tokens(before: Prompt, now: Prompt) -> int:
    """Count the tokens of the common beginning of two requests, as estimated for the newer one."""
    if before.system != now.system or before.formats != now.formats:
        return 0
    parts = now.parts
    shared = parts.base + parts.operations + parts.project
    for old, new, size in zip(before.history, now.history, now.sizes, strict=False):
        if old is not new and old != new:
            break
        shared += size
    return shared


def _name_part(operation: str) -> PartName:
    """Return the kind of part for the result of an operation."""
    return "files" if operation.startswith(_READS) else "results"


def _map_operations(prompt: Prompt) -> dict[str, str]:
    """Map call ids, in each form they may have on the wire, to operations."""
    found = {
        message.call_id: message.operation
        for message in prompt.history
        if isinstance(message, OperationMessage)
    }
    for message in prompt.history:
        if message.kind == "assistant" and message.decision is not None:
            for action in message.decision.actions:
                if action.wire_id and action.call_id in found:
                    found[action.wire_id] = found[action.call_id]
    return found
