"""The codec of native calls: content is the reply, ``decide`` the judgement, the rest actions."""

from __future__ import annotations

import json

from duckflow_tui.llm.codec import (
    CUT_BY_LIMIT,
    DECIDE,
    EXTRAS,
    Decoded,
    Show,
    WireRequest,
    assistant,
    decide_function,
    extra_name,
    extras_of,
    judgement_of,
    operation_function,
    reading_of,
    result_text,
    said_to_model,
    system_of,
    unread,
    user,
    wire_name,
    wire_names,
)
from duckflow_tui.llm.completion import Completion, NativeCall
from duckflow_tui.llm.strict_json import NotStrict, parse_object
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import IdSource, JsonObject
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message
from duckflow_tui.state.decision import Action, Judgement, Reading, TurnDecision
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.prompt import Prompt

NOTED = "noted"
NOT_EXECUTED = "not executed"


def encode(prompt: Prompt) -> WireRequest:
    """The request; the messages before the tail are a prefix of the next request's.

    Raises ValueError when two operations would have one name on the wire.
    """
    wire_names(spec.name for spec in prompt.operations)
    specs = {spec.name: spec for spec in prompt.operations}
    messages = [system_of(prompt, "tools"), *_history(prompt.history, specs)]
    if prompt.tail:
        messages.append(user(prompt.tail))
    tools = [decide_function(), *(operation_function(spec) for spec in prompt.operations)]
    return WireRequest(messages, tools=tools, decoder=ToolsDecoder)


def _history(history: tuple[Message, ...], specs: dict[str, OperationSpec]) -> list[JsonObject]:
    """Each call gets its result right behind the assistant's message."""
    items = said_to_model(history)
    results = {item.call_id: item for item in items if isinstance(item, OperationMessage)}
    messages: list[JsonObject] = []
    answered: set[str] = set()
    for item in items:
        if isinstance(item, AssistantMessage):
            messages.extend(_assistant(item, results, specs, answered))
        elif isinstance(item, OperationMessage):
            if item.by_user:
                messages.append(user(result_text(item)))
            elif item.call_id not in answered:
                messages.append(user(f"Result of {item.operation}: {result_text(item)}"))
        else:
            messages.append(user(item.for_model))
    return messages


def _assistant(
    message: AssistantMessage,
    found: dict[str, OperationMessage],
    specs: dict[str, OperationSpec],
    answered: set[str],
) -> list[JsonObject]:
    decision = message.decision
    if decision is None or not message.complete:
        return [assistant(unread(message))]
    calls: list[JsonObject] = []
    results: list[JsonObject] = []
    if _is_stated(decision):
        wire_id = f"decide_{decision.decision_id}"
        calls.append(_call(wire_id, DECIDE, judgement_of(decision)))
        results.append(_tool(wire_id, NOTED))
    for action in decision.actions:
        wire_id = action.wire_id or action.call_id
        calls.append(_call(wire_id, wire_name(action.operation), _arguments(action, specs)))
        result = found.get(action.call_id)
        if result is not None:
            answered.add(action.call_id)
        results.append(_tool(wire_id, NOT_EXECUTED if result is None else result_text(result)))
    if not calls:
        return [assistant(decision.reply)]
    text = wire_text(decision.reply)
    return [{"role": "assistant", "content": text, "tool_calls": calls}, *results]


def _is_stated(decision: TurnDecision) -> bool:
    """Whether the decision says more than its reply and its actions do."""
    plain = Judgement()
    return bool(
        decision.rationale
        or decision.step
        or decision.goal_consistency != plain
        or decision.constraint_check != plain
    )


def _arguments(action: Action, specs: dict[str, OperationSpec]) -> JsonObject:
    spec = specs.get(action.operation)
    extras = extras_of(action)
    named = {extra_name(spec, extra): extras[extra] for extra in EXTRAS if extra in extras}
    reasoning = extra_name(spec, "reasoning")
    return {reasoning: named.pop(reasoning), **action.args, **named}


def _call(wire_id: str, name: str, arguments: JsonObject) -> JsonObject:
    text = wire_text(json.dumps(arguments, ensure_ascii=False))
    return {"id": wire_id, "type": "function", "function": {"name": name, "arguments": text}}


def _tool(wire_id: str, text: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": wire_id, "content": wire_text(text)}


class ToolsDecoder:
    """Shows the content as it comes; reads the calls when all of them are there."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def content(self, text: str) -> None:
        """A piece of the reply."""
        self._show(text)

    @property
    def in_calls(self) -> bool:
        """Always false: whether calls have begun is known from the completion itself."""
        return False

    def decode(
        self, completion: Completion, prompt: Prompt, ids: IdSource, decision_id: str
    ) -> Decoded:
        """The decision of the calls. Calls without ``decide``: not stated, continue; content
        alone: done.
        """
        raw = _raw(completion)
        text = wire_text(completion.text).strip()
        if completion.finish == "length":
            return Decoded(None, text, raw, (CUT_BY_LIMIT,))
        reading = reading_of(prompt, ids)
        if not completion.calls and _looks_like_calls(text):
            reading.problems.append(
                "you wrote calls as text; nothing of it ran: call the functions themselves"
            )
        judgement, others = _split(completion.calls, reading)
        actions = _actions(others, reading) if reading.count_allowed(len(others)) else ()
        decision = reading.decision(
            decision_id,
            {**(judgement or {}), "reply": text, "actions": actions},
            stated=judgement is not None,
        )
        return Decoded(decision, text, raw, tuple(reading.problems), tuple(reading.warnings))


def _split(calls: list[NativeCall], reading: Reading) -> tuple[JsonObject | None, list[NativeCall]]:
    """What ``decide`` says, None where it was not called, and the other calls."""
    judgement: JsonObject | None = None
    others: list[NativeCall] = []
    for call in calls:
        if call.name != DECIDE:
            others.append(call)
        elif judgement is not None:
            reading.problems.append(f"{DECIDE} was called more than once; call it once")
        else:
            judgement = _object(DECIDE, call, reading) or {}
            for name in ("reply", "actions"):
                if judgement.pop(name, None):
                    reading.warnings.append(f"{name} inside {DECIDE} is left out")
    return judgement, others


def _actions(calls: list[NativeCall], reading: Reading) -> tuple[Action, ...]:
    """The calls that can be read; of two with one id the second goes without."""
    found: list[Action] = []
    seen: set[str] = set()
    for number, call in enumerate(calls, start=1):
        where = f"call {number}"
        spec = reading.operation(where, call.name)
        if spec is None:
            continue
        arguments = _object(f"{where} ({spec.name})", call, reading)
        if arguments is None:
            continue
        extras = {extra: arguments.pop(extra_name(spec, extra), None) for extra in EXTRAS}
        written = {"operation": spec.name, "args": arguments, **extras}
        action = reading.action(where, written, "" if call.wire_id in seen else call.wire_id)
        seen.add(call.wire_id)
        if action is not None:
            found.append(action)
    return tuple(found)


def _object(where: str, call: NativeCall, reading: Reading) -> JsonObject | None:
    try:
        return parse_object(call.argument_text.strip() or "{}")
    except NotStrict as error:
        reading.problems.append(f"{where}: the arguments are {error}")
        return None


def _looks_like_calls(text: str) -> bool:
    if not text.startswith(("{", "```json")):
        return False
    try:
        data = parse_object(text.removeprefix("```json").removesuffix("```").strip())
    except NotStrict:
        return False
    return "actions" in data or {"name", "arguments"} <= set(data)


def _raw(completion: Completion) -> str:
    parts = [completion.text.strip()]
    parts += [f"{call.name}({call.argument_text})" for call in completion.calls]
    return wire_text("\n".join(part for part in parts if part))
