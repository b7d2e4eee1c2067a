"""The codec of native calls: content is the reply, ``decide`` the judgement, the rest actions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from duckflow_tui.llm.codec import (
    CUT_BY_LIMIT,
    DECIDE,
    Decoded,
    Show,
    WireRequest,
    assistant,
    decide_function,
    extra_names,
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
from duckflow_tui.state.conversation import AssistantMessage, Thought, call_key
from duckflow_tui.state.decision import Action, Judgement, Reading
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.prompt import Prompt

NOTED = "noted"
NOT_EXECUTED = "not executed"


def encode(prompt: Prompt, receiver: tuple[str, str] = ("", "")) -> WireRequest:
    """The request; the messages before the tail are a prefix of the next request's. Each call has
    its result right behind the reply. What a model wants back with its message goes with it where
    the ``receiver``, origin and model, is the one that it came from.

    Raises ValueError when two operations would have one name on the wire.
    """
    specs = {spec.name: spec for spec in prompt.operations}
    wire_names(specs)
    history = said_to_model(prompt.history)
    results = {item.call_id: item for item in history if isinstance(item, OperationMessage)}
    messages = [system_of(prompt, "tools")]
    for item in history:
        if isinstance(item, AssistantMessage):
            made = _reply(item, results, specs)
            if item.thought is not None and (item.thought.origin, item.thought.model) == receiver:
                _give_back(made[0], item.thought)
            messages += made
        elif not isinstance(item, OperationMessage):
            messages.append(user(item.for_model))
        elif item.by_user:
            messages.append(user(result_text(item)))
        elif item.call_id in results:  # of a call that no reply here made
            messages.append(user(f"Result of {item.operation}: {result_text(item)}"))
    if prompt.tail:
        messages.append(user(prompt.tail))
    tools = [decide_function(), *map(operation_function, prompt.operations)]
    return WireRequest(messages, tools=tools, decoder=ToolsDecoder)


def _give_back(message: JsonObject, thought: Thought) -> None:
    message |= thought.fields
    seen: Counter[str] = Counter()
    for call in message.get("tool_calls") or ():
        name = call["function"]["name"]
        seen[name] += 1
        if extra := thought.calls.get(call_key(name, seen[name])):
            call["extra_content"] = extra


def _reply(
    message: AssistantMessage, results: dict[str, OperationMessage], specs: dict[str, OperationSpec]
) -> list[JsonObject]:
    """A reply with its calls, then the results of these, which are taken out of ``results``."""
    decision = message.decision
    calls: list[tuple[str, str, JsonObject, str]] = []  # id, function, arguments, what came of it
    if message.calls and (calls := _refused(message, results)):
        return _with_calls(message.text, calls)
    if decision is None or not message.complete:
        return [assistant(unread(message))]
    checks = (decision.goal_consistency, decision.constraint_check)
    if decision.rationale or decision.step or checks != (Judgement(), Judgement()):
        calls.append((f"decide_{decision.decision_id}", DECIDE, judgement_of(decision), NOTED))
    for action in decision.actions:
        result = results.pop(action.call_id, None)
        came = NOT_EXECUTED if result is None else result_text(result)
        arguments = _arguments(action, specs.get(action.operation))
        name = wire_name(action.operation)
        calls.append((action.wire_id or action.call_id, name, arguments, came))
    return _with_calls(decision.reply, calls) if calls else [assistant(decision.reply)]


def _refused(
    message: AssistantMessage, results: dict[str, OperationMessage]
) -> list[tuple[str, str, JsonObject, str]]:
    """The calls of a reply that could not be used, or only those of them that read; none where a
    server would not take them.
    """
    actions = message.decision.actions if message.decision is not None else ()
    ran = {action.wire_id: action.call_id for action in actions}
    if not message.complete or "" in ran:
        return []
    calls: list[tuple[str, str, JsonObject, str]] = []
    for call in message.calls:
        try:
            arguments = parse_object(call.arguments.strip() or "{}")
        except NotStrict:
            return []
        if not (call.wire_id and call.name == wire_name(call.name)):
            return []
        result = results.get(ran.get(call.wire_id, ""))
        came = NOT_EXECUTED if result is None else result_text(result)
        calls.append((call.wire_id, call.name, arguments, came))
    if len({wire_id for wire_id, *_ in calls}) < len(calls):
        return []
    for call_id in ran.values():
        results.pop(call_id, None)
    return calls


def _with_calls(reply: str, calls: list[tuple[str, str, JsonObject, str]]) -> list[JsonObject]:
    """A message with its calls, and what came of each right behind it."""
    asked: list[JsonObject] = []
    answers: list[JsonObject] = []
    for wire_id, name, arguments, came in calls:
        function = {"name": name, "arguments": wire_text(json.dumps(arguments, ensure_ascii=False))}
        asked.append({"id": wire_id, "type": "function", "function": function})
        answers.append({"role": "tool", "tool_call_id": wire_id, "content": wire_text(came)})
    text = wire_text(reply)
    return [{"role": "assistant", "content": text, "tool_calls": asked}, *answers]


def _arguments(action: Action, spec: OperationSpec | None) -> JsonObject:
    """The arguments of a call as the model wrote them: its reasoning first."""
    names, extras = extra_names(spec), extras_of(action)
    written: JsonObject = {names["reasoning"]: extras.pop("reasoning"), **action.args}
    for extra, value in extras.items():
        written[names[extra]] = value
    return written


@dataclass(frozen=True, slots=True)
class ToolsDecoder:
    """Hears the content as it comes; reads the calls when all of them are there."""

    content: Show
    in_calls: bool = False  # whether calls have begun is known from the completion itself

    def decode(
        self, completion: Completion, prompt: Prompt, ids: IdSource, decision_id: str
    ) -> Decoded:
        """The decision of the calls; no ``decide``: not stated, continue; content alone: done."""
        text = wire_text(completion.text).strip()
        raw = completion.text.strip()
        for call in completion.calls:
            raw += f"\n{call.name}({call.argument_text})"
        raw = wire_text(raw.removeprefix("\n"))
        if completion.finish == "length":
            return Decoded(None, text, raw, (CUT_BY_LIMIT,))
        reading = reading_of(
            prompt, ids, f"the function {DECIDE}, called in this reply or alone before the others"
        )
        if not completion.calls and _looks_like_calls(text):
            reading.problems.append(
                "you wrote calls as text; nothing of it ran: call the functions themselves"
            )
        judgement, others = _split(completion.calls, reading)
        reading.why = str((judgement or {}).get("rationale") or text)
        actions = (
            _actions(others, reading, _ids_in(prompt)) if reading.count_allowed(len(others)) else ()
        )
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


def _ids_in(prompt: Prompt) -> set[str]:
    """The ids that calls of the conversation have: servers that number the calls of each reply
    from 0 give them again, and strict ones refuse a request that holds one twice.
    """
    ids: set[str] = set()
    for item in prompt.history:
        if isinstance(item, AssistantMessage):
            ids.update(call.wire_id for call in item.calls)
            if item.decision is not None:
                ids.update(action.wire_id for action in item.decision.actions)
    return ids


def _actions(calls: list[NativeCall], reading: Reading, seen: set[str]) -> tuple[Action, ...]:
    """The calls that can be read; one with an id that is ``seen`` goes without."""
    found: list[Action] = []
    for number, call in enumerate(calls, start=1):
        where = f"call {number}"
        spec = reading.operation(where, call.name)
        if spec is None:
            continue
        arguments = _object(f"{where} ({spec.name})", call, reading)
        if arguments is None:
            continue
        written: JsonObject = {"operation": spec.name, "args": arguments}
        for extra, name in extra_names(spec).items():
            written[extra] = arguments.pop(name, None)
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
