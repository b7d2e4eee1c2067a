"""Formats plans, requirements, calls and operations as lines of a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from functools import cache
from itertools import count
from typing import Any, Final, cast

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS, JsonObject, canonical_json, one_line, to_datetime
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.gates import CardMessage
from duckflow_tui.state.goal import RequirementItem
from duckflow_tui.state.operations import Effect, Need, OperationSpec, describe_target
from duckflow_tui.state.plan import Plan, ReportMessage, Step, StepReport, Task, WorkStatus

LINE: Final = 200  # characters of a value on one line

RESULT: Final = 200  # characters of a result in a list of results (S3-15)

_ARGUMENT: Final = 100  # characters of one argument

_ARGUMENTS: Final = 200  # of all arguments of a call

_NAME: Final = 100

_STEPS: Final = 12  # of a plan, around the first one that is not done

_FILES: Final = 10  # that a report names

_READ: Final = 4  # times as much of a long text is looked at as of it is shown


def short_line(text: str, limit: int = LINE) -> str:
    """Return the text on one line, cut to ``limit`` characters; fast for texts of any length."""
    if len(text) <= _READ * limit:
        return one_line(text, limit)
    flat = one_line(text[: _READ * limit], limit)
    return flat if flat.endswith(ELLIPSIS) else one_line(flat, limit - 1) + ELLIPSIS


def cut_text(text: str, limit: int) -> str:
    """Return the text with its line breaks, cut to ``limit`` characters."""
    kept = text[: limit + 1].strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + ELLIPSIS


def cut_middle(text: str, share: float, left_out: Callable[[int], str]) -> tuple[str, int]:
    """Keep ``share`` of a text, two thirds from its head and one third from its tail. Returns the
    text with the note ``left_out(n)`` in the gap, and n, the characters cut.
    """
    keep = int(len(text) * share)
    head = keep * 2 // 3
    cut = len(text) - keep
    return f"{text[:head]}\n{left_out(cut)}\n{text[len(text) - (keep - head) :]}", cut


def format_bullets(items: Sequence[str]) -> tuple[str, ...]:
    """Put ``- `` before each item."""
    return tuple(map("- {}".format, items))


def format_numbered(items: Iterable[str], first: int = 1) -> tuple[str, ...]:
    """Put ``1. ``, ``2. `` … before the items, counted from ``first``."""
    return tuple(map("{}. {}".format, count(first), items))


def format_minute(at: float) -> str:
    """Format a time, in seconds since the epoch, as ``2026-01-31 12:00 UTC``."""
    then = to_datetime(at, UTC)
    return then.strftime("%Y-%m-%d %H:%M UTC") if then else "?"


def format_elapsed(seconds: float) -> str:
    """Format seconds as ``m:ss`` or ``h:mm:ss``; a negative number counts as 0."""
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute_of = divmod(minutes, 60)
    return f"{hours}:{minute_of:02d}:{second:02d}" if hours else f"{minute_of}:{second:02d}"


def format_call(operation: str, args: JsonObject) -> str:
    """Format a call as ``operation(name: value, …)``, long arguments cut."""
    fields = ", ".join(
        f"{short_line(name, 40)}: {_format_value(value)}" for name, value in args.items()
    )
    return f"{short_line(operation, _NAME)}({short_line(fields, _ARGUMENTS)})"


def format_result(message: OperationMessage) -> str:
    """Format a finished call as ``operation(args) -> [outcome] result (reason)``, each part cut."""
    why = f" ({short_line(message.reasoning)})" if message.reasoning.strip() else ""
    said = short_line(message.result.text, RESULT)
    line = f"{format_call(message.operation, message.args)} -> {message.result.label} {said}"
    return line.rstrip() + why


def format_task(item: Task) -> str:
    """Format a task of a step: status, call, description, result."""
    about = f" {short_line(item.description)}" if item.description else ""
    came = f" -> {short_line(item.result, RESULT)}" if item.result else ""
    return f"[{item.status.value}] {format_call(item.operation, item.args)}{about}{came}"


def format_step(item: Step) -> str:
    """Format a step as ``name: description``."""
    name = one_line(item.name, _NAME)
    return f"{name}: {short_line(item.description, 2 * LINE)}" if item.description else name


def step_number(plan: Plan, item: Step) -> int:
    """Return the place of a step in its plan, counted from 1; 0 where it is not in it."""
    return next((n for n, s in enumerate(plan.steps, start=1) if s.step_id == item.step_id), 0)


def format_plan(of: Plan | None) -> str:
    """Format a plan with the status of each step, at most twelve steps around the next one; empty
    for None.
    """
    if of is None:
        return ""
    open_at = next((i for i, s in enumerate(of.steps) if s.status is not WorkStatus.COMPLETED), 0)
    begin = max(0, min(open_at - 2, len(of.steps) - _STEPS))
    lines = [f"{one_line(of.name, _NAME)} [{of.status_text}]"]
    for number, item in enumerate(of.steps[begin : begin + _STEPS], start=begin + 1):
        lines.append(f"{number}. [{item.status_text}] {one_line(item.name, _NAME)}")
    if len(of.steps) > _STEPS:
        lines.append(f"({begin + 1}–{begin + _STEPS} / {len(of.steps)})")
    return "\n".join(lines)


def plan_results(state: AgentState, of: Plan) -> str:
    """Format a plan with its goal and, for each step, status and newest report."""
    head = f"{one_line(of.name, _NAME)} [{of.status_text}]: {short_line(of.goal, 2 * LINE)}"
    return "\n".join((head, *_with_reports(state, of, {item.step_id for item in of.steps})))


def step_in_hand(of: Plan) -> tuple[str, ...]:
    """Return one line for the running step, else for the first one that is not completed; empty
    where all are.
    """
    left = [at for at in enumerate(of.steps, 1) if at[1].status is not WorkStatus.COMPLETED]
    runs = [at for at in left if at[1].status is WorkStatus.IN_PROGRESS]
    shown = (runs or left)[:1]
    return tuple(
        f"{n}. {one_line(item.name, _NAME)} [{item.status.value}] | {one_line(of.name, _NAME)}"
        for n, item in shown
    )


def list_step_reports(state: AgentState, of: Plan) -> tuple[str, ...]:
    """Return one line for each of the last steps that ended, at most seven, in the plan's order
    (S2-29).
    """
    ended = [
        at
        for at in enumerate(of.steps, 1)
        if at[1].status in (WorkStatus.COMPLETED, WorkStatus.FAILED)
    ][-_BROUGHT:]
    reports = _newest_reports(state, {item.step_id for _, item in ended})
    told = ((n, item, _format_report(reports.get(item.step_id), item)) for n, item in ended)
    return tuple(
        f"- {number}. [{item.status_text}] {one_line(item.name, _NAME)}: {came}"
        for number, item, came in told
        if came
    )


def list_dependencies(state: AgentState, of: Plan, item: Step) -> tuple[str, ...]:
    """Return one line for each step that ``item`` depends on, with its report (S2-19, S3-30)."""
    return tuple(_with_reports(state, of, set(item.depends_on)))


def format_requirements(state: AgentState, most: int | None = None) -> str:
    """Format the requirements on a line each: id, priority, state, score, text, check. With
    ``most`` the check is left out and the text is cut to so many characters.
    """
    if state.objective is None:
        return ""
    return "\n".join(
        f"- {format_requirement(r, most)}" for r in state.objective.extracted_requirements
    )


def format_requirement(item: RequirementItem, most: int | None = None) -> str:
    """Format one requirement on a line, as in ``format_requirements``."""
    if most is not None:
        return f"{item.requirement_id} {item.state.value} {short_line(item.requirement, most)}"
    words = " ".join(item.requirement.split())
    check = " ".join(f"{item.check.kind}: {item.check.value}".split())
    decided_by = f" ({check})" if item.check.kind != "judgement" else ""
    return (
        f"{item.requirement_id} P{item.priority} {item.state.value} {item.satisfaction_level:.0%}"
        f" {words}{decided_by}"
    )


def format_gates(state: AgentState) -> str:
    """Return one line for each open approval: operation, target, risk and intent."""
    return "\n".join(
        f"- {g.operation} {describe_target(g.args)} ({g.impact.risk.value}): "
        f"{one_line(g.intent, LINE)}"
        for g in state.gates
    )


def format_running(state: AgentState) -> str:
    """Return a line for each call that has started and not finished."""
    return "\n".join(f"- {r.call_text}" for r in state.running if r.started)


def list_changed_outside(state: AgentState) -> str:
    """List files that were changed by others since the model read them."""
    return "\n".join(format_bullets([one_line(path, LINE) for path in state.changed_outside]))


def _format_value(value: Any) -> str:
    """Return an argument as JSON on one line, cut to a limit."""
    if isinstance(value, str):
        return canonical_json(short_line(value, _ARGUMENT))
    return short_line(canonical_json(value), _ARGUMENT)


def _with_reports(state: AgentState, of: Plan, steps: set[str]) -> list[str]:
    """Return one line for each of these steps: number, status, name and newest report."""
    reports, found = _newest_reports(state, steps), list[str]()
    for number, item in enumerate(of.steps, start=1):
        if item.step_id in steps:
            said = _format_report(reports.get(item.step_id), item)
            head = f"{number}. [{item.status_text}] {one_line(item.name, _NAME)}"
            found.append(f"{head}: {said}" if said else head)
    return found


def _newest_reports(state: AgentState, steps: set[str]) -> dict[str, StepReport]:
    """Return the newest report of each step, by step id."""
    found: dict[str, StepReport] = {}
    for message in reversed(state.messages):
        if len(found) == len(steps):
            break
        if isinstance(message, ReportMessage) and message.report.step_id in steps:
            found.setdefault(message.report.step_id, message.report)
    return found


def _format_report(report: StepReport | None, item: Step) -> str:
    """Format a report's summary and changed files; without a report, the step's note."""
    if report is None:
        return short_line(item.note)
    files = ", ".join(short_line(path, _NAME) for path in report.files_changed[:_FILES])
    return f"{short_line(report.summary, 2 * LINE)} {f'({files})' if files else ''}".strip()


_BROUGHT: Final = 7  # steps: as many as a plan should have (C24)

DIGEST: Final = 100  # characters (S4-11, S4-16)

_ASKED: Final = 42  # of them for what the user wrote


def exchange_digest(messages: Sequence[Message]) -> str:
    """Return one line for an exchange, a user's message with everything up to the next one: ``asked
    → answered``.

    An aside is answered only by replies to asides.
    """
    asked = next((m for m in messages if isinstance(m, UserMessage)), None)
    aside = asked is not None and asked.aside
    answers = (_message_text(m, aside) for m in reversed(messages))
    words = one_line(asked.text, _ASKED) if asked else ""
    return _join_texts(words, next((said for said in answers if said), ""))


def recent_exchanges(messages: Sequence[Message], most: int) -> tuple[str, ...]:
    """Return one line for each of the newest ``most`` exchanges, oldest first, asides included."""
    begin, users = len(messages), 0
    while begin and users < most:
        begin -= 1
        users += isinstance(messages[begin], UserMessage) and not messages[begin].step_id
    exchanges: list[list[Message]] = []
    newest: dict[bool, list[Message]] = {}
    for message in messages[begin:]:
        if message.step_id:
            continue
        if isinstance(message, UserMessage):
            newest[message.aside] = [message]
            exchanges.append(newest[message.aside])
        else:
            aside = isinstance(message, AssistantMessage) and message.aside
            newest.get(aside, []).append(message)
    return tuple(line for line in map(exchange_digest, exchanges) if line)


def loop_digest(messages: Sequence[Message]) -> str:
    """Return one line for a decision inside a turn: ``rationale → outcome of each call``."""
    said = next((m for m in messages if isinstance(m, AssistantMessage)), None)
    why = said.decision.rationale if said and said.decision else (said.text if said else "")
    calls = [
        f"{m.operation} {describe_target(m.args)} {m.result.outcome.value}".replace("  ", " ")
        for m in messages
        if isinstance(m, OperationMessage)
    ]
    told = [one_line(_answer_text(m), _ASKED) for m in messages if _answer_text(m)]
    return _join_texts(one_line(why, _ASKED), "; ".join([*calls, *told]))


def _message_text(message: Message, aside: bool) -> str:
    """Return the text by which a message answers the user: a reply of the same kind, a card or a
    report.
    """
    if isinstance(message, AssistantMessage):
        return message.text.strip() if message.aside is aside else ""
    return "" if aside else _answer_text(message)


def _answer_text(message: Message) -> str:
    """Return the text of an answered card or a report as the model reads it; empty for other
    messages.
    """
    return message.for_model.strip() if isinstance(message, CardMessage | ReportMessage) else ""


def _join_texts(left: str, right: str) -> str:
    """Join two texts as ``left → right`` on one line, cut to 100 characters."""
    if left and right:
        return one_line(f"{left} → {right}", DIGEST)
    return one_line(left or right, DIGEST)


def escape_frame(text: str, *tags: str) -> str:
    """Escape the closing marks of these tags in a text, so that it cannot end a frame
    ``<tag>…</tag>``.
    """
    return _frame_end_pattern(tags).sub(r"<\\/", text)


@cache
def _frame_end_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches the start of a closing mark of any of these tags."""
    names = "|".join(map(re.escape, tags))
    return re.compile(rf"<\s*/(?=\s*(?:{names}))", re.IGNORECASE)


def frame_text(tag: str, text: str) -> str:
    """Put the text between ``<tag>`` and ``</tag>`` on lines of their own; an empty text stays
    empty.
    """
    return f"<{tag}>\n{escape_frame(text, tag)}\n</{tag}>" if text else ""


_OPERATION_NAME: Final = 80

_SUMMARY: Final = 300  # characters; a server's own words may be of any length

_DESCRIPTION: Final = 160

_DEPTH: Final = 4  # levels of nested objects that are spelled out


#: Operations that a prompt file may speak of, by the field that names them there.
SPOKEN: Final = {
    "op_propose": "plan_tool.propose",
    "op_revise": "plan_tool.revise",
    "op_update": "plan_tool.update_step",
    "op_get": "plan_tool.get",
    "op_tasks": "task_tool.generate_list",
    "op_run": "task_loop.run",
    "op_pause": "task_loop.pause",
    "op_stop": "task_loop.stop",
    "op_read": "file_ops.read_file",
    "op_list": "file_ops.list_dir",
    "op_find": "file_ops.find_files",
    "op_write": "file_ops.write_file",
    "op_edit": "file_ops.edit_file",
    "op_end": "shell.end",
    "op_output": "shell.output",
}


def operation_names(operations: Sequence[OperationSpec]) -> dict[str, str]:
    """Return the values of the template fields in ``SPOKEN``: the operation's name, or empty where
    it is not offered, so that the line that mentions it is left out.
    """
    offered = {spec.name for spec in operations}
    return {field: name if name in offered else "" for field, name in SPOKEN.items()}


def is_always_offered(spec: OperationSpec) -> bool:
    """Whether the operation depends on nothing that comes and goes within a session."""
    return not set(spec.needs) - {Need.CONVERSATION}


def filter_usable(
    operations: Sequence[OperationSpec], state: AgentState, step: bool, aside: bool, notes: bool
) -> tuple[OperationSpec, ...]:
    """Return the operations that are usable now in the conversation, in a ``step`` of a plan, or in
    an ``aside``. ``notes``: whether earlier sessions left notes to search.
    """
    missing = {Need.CONVERSATION} if step or aside else set[Need]()
    missing |= {Need.PLAN} if step else set()  # the step's own text says how to call them
    missing |= {Need.WORKER} if aside else set()
    missing |= set() if state.active_plan else {Need.PLAN}
    missing |= {Need.WORK} if step or state.work is None else set()
    missing |= set() if state.processes else {Need.PROCESS}
    missing |= set() if notes else {Need.NOTES}
    found = tuple(spec for spec in operations if missing.isdisjoint(spec.needs))
    if not aside:
        return found
    # Beside work there is only reading, and what steers the plan or the work.
    steers = (Need.PLAN, Need.WORK)
    return tuple(s for s in found if s.effect is Effect.READ or not set(steers).isdisjoint(s.needs))


def operation_lines(operations: Sequence[OperationSpec], *, arguments: bool = True) -> str:
    """Format operations on a line each: name, typed arguments, effect, summary; with ``arguments``
    also the descriptions of the arguments.
    """
    lines: list[str] = []
    for spec in operations:
        schema = spec.parameters
        definitions = _as_object(schema.get("$defs")) or _as_object(schema.get("definitions"))
        head = (
            f"- {one_line(spec.name, _OPERATION_NAME)}({_format_members(schema, definitions, 0)})"
        )
        said = [f"{head} [{spec.effect.value}] {one_line(spec.summary, _SUMMARY)}".rstrip()]
        for name, member in _get_properties(schema).items() if arguments else ():
            text = member.get("description")
            if isinstance(text, str) and text.strip():
                said.append(f"{one_line(name, _OPERATION_NAME)}: {one_line(text, _DESCRIPTION)}")
        lines.append(" ".join(said))
    return "\n".join(lines)


def schema_text(operations: Sequence[OperationSpec]) -> str:
    """Return the schemas sent with native calls as one text, to estimate their tokens."""
    return "".join(f"{s.name}{s.summary}{canonical_json(s.parameters)}" for s in operations)


def _format_members(schema: JsonObject, definitions: JsonObject, depth: int) -> str:
    """Format the properties of a JSON schema as ``name: type``. ``?`` marks optional ones; ``…``
    alone stands for arguments that the model has to ask for.
    """
    if "properties" not in schema and schema.get("additionalProperties") is True and not depth:
        return ELLIPSIS
    needed: object = schema.get("required", ())
    required = cast("list[object]", needed) if isinstance(needed, list) else []
    return ", ".join(
        f"{one_line(name, _OPERATION_NAME)}{'' if name in required else '?'}: "
        f"{_format_type(member, definitions, depth)}"
        for name, member in _get_properties(schema).items()
    )


def _format_type(schema: JsonObject, definitions: JsonObject, depth: int) -> str:
    """Format a schema's type in TypeScript's notation, which models know."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = _as_object(definitions.get(reference.rsplit("/", 1)[-1]))
    choices: object = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return "|".join(canonical_json(choice) for choice in cast("list[object]", choices))
    for key in ("anyOf", "oneOf"):
        options: object = schema.get(key)
        if isinstance(options, list):
            shapes = [
                _format_type(_as_object(option), definitions, depth)
                for option in cast("list[object]", options)
                if _as_object(option).get("type") != "null"
            ]
            return "|".join(dict.fromkeys(shapes))
    kind: object = schema.get("type", "any")
    if kind == "array":
        return f"[{_format_type(_as_object(schema.get('items')), definitions, depth)}]"
    if kind == "object":
        if depth >= _DEPTH or not _get_properties(schema):
            return "object"
        return "{" + _format_members(schema, definitions, depth + 1) + "}"
    if isinstance(kind, list):
        return "|".join(str(k) for k in cast("list[object]", kind) if k != "null")
    return one_line(str(kind), _OPERATION_NAME)


def _get_properties(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the schemas of an object's properties by name; empty where the schema has none."""
    return {
        name: _as_object(member) for name, member in _as_object(schema.get("properties")).items()
    }


def _as_object(value: object) -> dict[str, Any]:
    """Return the value where it is a JSON object; else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
