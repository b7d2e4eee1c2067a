"""The codec of native calls: content is the reply, the function ``decide`` holds the judgement,
other functions are actions.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Final

from duckflow_tui.llm.codec import (
    CUT_BY_LIMIT,
    DECIDE,
    IN_CODE_BLOCK,
    NOT_READ,
    OTHER,
    Decoded,
    Show,
    WireRequest,
    add_note,
    assistant_message,
    calls_in,
    decide_function,
    history_for_model,
    image_messages,
    is_untold_command,
    judged_before,
    judgement_of,
    mark_as_text,
    operation_function,
    other_function,
    reading_of,
    result_text,
    system_of,
    unread_text,
    user_message,
    wire_name,
)
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.decision_reading import WrittenCall
from duckflow_tui.llm.reply_json import MOST_READ, NotStrict, find_object, parse_object
from duckflow_tui.llm.wire import wire_text
from duckflow_tui.state.base import IdSource, JsonObject, canonical_json
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Thought, call_key
from duckflow_tui.state.decision import CHECKS, Action, SelfCheck, TurnDecision
from duckflow_tui.state.prompt import Prompt
from duckflow_tui.state.usage import Api

NOTED = "noted"
RESULT_OF: Final = "Result of"  # begins a message with the result of a call of no reply
NOT_EXECUTED = "not executed"


#: Origin, model and API of a request.
Receiver = tuple[str, str, Api]


def encode_request(prompt: Prompt, receiver: Receiver | None = None) -> WireRequest:
    """Encode a prompt as a request with functions; results follow the reply that made the calls.
    Reasoning that a model wants back is included only if the ``receiver`` is the origin, model
    and API that it came from.
    """
    history = history_for_model(prompt.history)
    results = {item.call_id: item for item in history if isinstance(item, OperationMessage)}
    messages = [system_of(prompt, "tools")]
    own = frozenset(spec.name for spec in prompt.operations if not spec.listed)
    for item in history:
        if isinstance(item, AssistantMessage):
            made = _encode_reply(item, results, own)
            thought = item.thought
            if thought is not None and (thought.origin, thought.model, thought.api) == receiver:
                _give_back(made[0], thought)
            messages += made
            continue
        if not isinstance(item, OperationMessage):
            messages.append(user_message(item.for_model))
            continue
        if item.by_user:
            messages.append(user_message(result_text(item)))
        elif item.call_id in results:  # of a call that no reply here made
            messages.append(user_message(f"{RESULT_OF} {item.operation}: {result_text(item)}"))
        messages += image_messages(item)
    shared = add_note(messages, prompt)
    functions = (operation_function(spec) for spec in prompt.operations if spec.name in own)
    tools = [decide_function(), *functions, other_function()]
    return WireRequest(messages, tools=tools, decoder=ToolsDecoder, shared=shared)


def _give_back(message: JsonObject, thought: Thought) -> None:
    """Add the stored reasoning to the message and its calls."""
    message |= thought.fields
    seen: Counter[str] = Counter()
    for call in message.get("tool_calls") or ():
        name = call["function"]["name"]
        seen[name] += 1
        if extra := thought.calls.get(call_key(name, seen[name])):
            call["extra_content"] = extra


def _encode_reply(
    message: AssistantMessage, results: dict[str, OperationMessage], own: frozenset[str]
) -> list[JsonObject]:
    """Return a reply with its calls and their results, which are removed from ``results``. ``own``:
    operations with a function of their own.
    """
    decision = message.decision
    calls: list[tuple[str, str, JsonObject, str]] = []  # id, function, arguments, result
    if message.calls and (calls := _list_refused_calls(message, results)):
        return _with_calls(message.text, calls)
    if decision is None or not message.complete:
        return [assistant_message(unread_text(message))]
    checks = (decision.goal_consistency, decision.constraint_check)
    if decision.rationale or decision.step or checks != (SelfCheck(), SelfCheck()):
        judged = _as_native_judgement(judgement_of(decision))
        about = [_describe_call(action, decision) for action in decision.actions]
        if any(about):
            judged["calls"] = about
        calls.append((f"decide_{decision.decision_id}", DECIDE, judged, NOTED))
    for action in decision.actions:
        result = results.pop(action.call_id, None)
        came = NOT_EXECUTED if result is None else result_text(result)
        name, args = wire_name(action.operation), action.args
        if action.operation not in own:
            name, args = OTHER, {"name": action.operation, "args": canonical_json(args)}
        calls.append((action.wire_id or action.call_id, name, args, came))
    return _with_calls(decision.reply, calls) if calls else [assistant_message(decision.reply)]


def _as_native_judgement(judgement: JsonObject) -> JsonObject:
    """Rewrite a judgement in place as arguments of ``decide``, with checks as texts."""
    for name in CHECKS:
        if check := judgement.get(name):
            judgement[name] = f"{'yes' if check['ok'] else 'no'}: {check['reason']}".rstrip(": ")
    for claim in judgement.get("requirements", ()):
        if check := claim.get("check"):
            claim["check"] = ": ".join(filter(None, (check.get("kind"), check.get("value"))))
    return judgement


def _list_refused_calls(
    message: AssistantMessage, results: dict[str, OperationMessage]
) -> list[tuple[str, str, JsonObject, str]]:
    """Return the calls of a reply that was not usable as a whole, each as id, name, arguments and
    result text. Empty if a server would reject them.
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
    """Return a message with its calls, then a message with the result of each."""
    asked: list[JsonObject] = []
    answers: list[JsonObject] = []
    for wire_id, name, arguments, came in calls:
        function = {"name": name, "arguments": wire_text(json.dumps(arguments, ensure_ascii=False))}
        asked.append({"id": wire_id, "type": "function", "function": function})
        answers.append({"role": "tool", "tool_call_id": wire_id, "content": wire_text(came)})
    text = wire_text(reply)
    return [{"role": "assistant", "content": text, "tool_calls": asked}, *answers]


def _describe_call(action: Action, decision: TurnDecision) -> JsonObject:
    """Return reasoning, intent and alternatives of a call, without reasoning that repeats the
    rationale.
    """
    said: JsonObject = {}
    if action.reasoning != decision.rationale:
        said["reasoning"] = action.reasoning
    if action.intent:
        said["intent"] = action.intent
    if action.alternatives:
        said["alternatives"] = list(action.alternatives)
    return said


@dataclass(frozen=True, slots=True)
class ToolsDecoder:
    """Shows the content as it arrives; decodes the calls once the reply is complete."""

    content: Show
    in_calls: bool = False  # whether calls have begun is known from the completion itself

    def decode(
        self, completion: Completion, prompt: Prompt, ids: IdSource, decision_id: str
    ) -> Decoded:
        """Decode calls and content to a decision. Without ``decide`` there is no judgement and work
        continues; content without calls ends the work. Calls written as text are decoded too.
        """
        text = wire_text(completion.text).strip()
        raws = [completion.text.strip()]
        for call in completion.calls:
            raws.append(f"{call.name}({call.argument_text})")
        raw = wire_text("\n".join(raws).removeprefix("\n")[:MOST_READ])
        if completion.finish == "length":  # R16b
            return Decoded(None, text, raw, (CUT_BY_LIMIT,))
        if len(raw) == MOST_READ:  # as for a reply that is one object
            too_long = NotStrict("too_long", limit=f"{MOST_READ:,}")
            return Decoded(None, text, raw, (too_long.told,))
        reading = reading_of(prompt, ids)
        seen, calls = _ids_in(prompt), list[WrittenCall]()
        for number, call in enumerate(completion.calls, start=1):
            fields = {"operation": call.name, "args": call.argument_text}
            wire_id = "" if call.wire_id in seen else call.wire_id
            calls.append(WrittenCall(f"call {number}", fields, wire_id))
            seen.add(call.wire_id)
        spoken = calls_in(text, prompt) if not calls else None
        if spoken is not None:
            text = spoken.rest
            calls = [
                WrittenCall(f"call {number}", {"operation": call.name, "args": call.arguments})
                for number, call in enumerate(spoken.calls, start=1)
            ]
            if spoken.unread:
                reading.problems.append(NOT_READ)
        elif not calls and text.startswith(("{", "```json")) and (whole := _decision_in(text)):
            decision = mark_as_text(reading.decision(decision_id, whole))
            problems, warnings = tuple(reading.problems), tuple(reading.warnings)
            said_nothing = not (decision.reply or decision.actions)
            return Decoded(
                decision, decision.reply, raw, (NOT_READ,) if said_nothing else problems, warnings,
                from_text=True,
            )  # fmt: skip
        elif not calls and is_untold_command(text, prompt):
            return Decoded(None, text, raw, (IN_CODE_BLOCK,))
        before = judged_before(prompt.history)
        reading.why = before.rationale if before else ""
        if completion.more_calls and not reading.count_allowed(len(calls) + completion.more_calls):
            calls = []
        decision = reading.decision(decision_id, {"reply": text}, calls, stated=False)
        if spoken is not None:
            decision = mark_as_text(decision)
        return Decoded(
            decision, decision.reply, raw, tuple(reading.problems), tuple(reading.warnings),
            bool(spoken),
        )  # fmt: skip


def _decision_in(text: str) -> JsonObject | None:
    """Return the decision that a text contains as a JSON object, as in the JSON protocol; None if
    there is none with actions.
    """
    try:
        found = find_object(text, TurnDecision.model_fields).data
        return found if "actions" in found else None
    except NotStrict:
        return None


def _ids_in(prompt: Prompt) -> set[str]:
    """Return all wire ids of calls in the conversation. Servers that number calls from 0 in each
    reply repeat them, and strict servers refuse a request with duplicates.
    """
    ids: set[str] = set()
    for item in prompt.history:
        if isinstance(item, AssistantMessage):
            ids.update(call.wire_id for call in item.calls)
            if item.decision is not None:
                ids.update(action.wire_id for action in item.decision.actions)
    return ids
