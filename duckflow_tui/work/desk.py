"""Carries out what the model asks of plans and work, and the rest of a plan that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.safety.desk import Unanswered
from duckflow_tui.state.base import LocalizedText, StateError, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.decision import read_requirement
from duckflow_tui.state.gates import GO_ON, STOP, TELL, CardKind
from duckflow_tui.state.operations import Outcome
from duckflow_tui.state.plan import (
    SOFT_STEPS,
    Halt,
    Plan,
    PlanChange,
    PlanEdit,
    PlanProblem,
    PlanStatus,
    RunMode,
    Step,
    StepReport,
    WorkStatus,
    apply_edits,
    find_step,
    list_ready_steps,
)
from duckflow_tui.state.plan_events import (
    PlanHalted,
    PlanProposed,
    PlanRevised,
    StepChanged,
    StepTasksSet,
)
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.propose import (
    NOT_SENT,
    PlanApprovals,
    check_not_rejected,
    end_idle_plan,
    held_back,
    make_plan,
    plan_words,
    tasks_words,
    was_told_of,
)
from duckflow_tui.work.report import has_result, is_independent, make_report
from duckflow_tui.work.run import (
    NOT_DONE,
    ListRun,
    PlanResult,
    PlanRun,
    TaskLoop,
    WorkBroke,
    WorkStopped,
    unfinished_step,
)
from duckflow_tui.work.tasks import list_tasks, listed

if TYPE_CHECKING:
    from duckflow_tui.tools.plan_operations import ListedTask, PlannedStep, Revise, StepEdit
    from duckflow_tui.work.parts import TurnParts
    from duckflow_tui.work.steering import TurnControl

T = TypeVar("T")

_HOW_ON = (
    "Only if the user said that it is done, set it completed with plan_tool.update_step; to have "
    "it done again, set it pending. Then task_loop.run goes on with the plan."
)

_STOPPED_HERE = "The user does not want to go on for now; wait for their word."


class WorkFault(ToolFault):
    """Why the work on a plan ended without an outcome; ``told`` says it to the user."""

    def __init__(
        self, text: str, code: str, outcome: Outcome = Outcome.ERROR, **params: str
    ) -> None:
        super().__init__(text, outcome)
        self.told = LocalizedText(key=f"work.ended.{code}", params=params)


def _check_none_in_progress(plan: Plan) -> None:
    """Raise WorkFault where the model works on a step itself: it has to say how that ended."""
    step = next((s for s in plan.steps if s.status is WorkStatus.IN_PROGRESS), None)
    if step is not None:
        raise WorkFault(
            f"Step {step.name!r} is in progress by plan_tool.update_step; say how it ended "
            "before other work begins.",
            "busy",
            Outcome.INVALID,
            step=step.name,
        )


class PlanDesk:
    """One for a session. ``control`` is that of the running turn, None while none runs."""

    def __init__(
        self,
        parts: TurnParts,
        task_loop: TaskLoop,
        control: Callable[[], TurnControl | None],
        go_on: Callable[[], None],
    ) -> None:
        """``go_on`` hears that an approved plan has more to do."""
        self._parts = parts
        self._task_loop = task_loop
        self._control = control
        self._go_on = go_on
        self.approvals = PlanApprovals(parts, task_loop)
        #: The plan that the model asked to be carried out behind its decision, and the one step of
        #: it, empty for all.
        self._wanted: tuple[str, str] | None = None

    # --- what the model calls -------------------------------------------------------------------

    async def propose(self, goal: str, steps: Sequence[PlannedStep] = ()) -> Output:
        """Show a plan, of the model's own steps or made by another, and wait for the user's answer
        (S2-8, S2-22).
        """
        state = self._parts.store.state
        if state.work is not None and state.work.plan_id:
            raise ToolFault("A plan is being worked on; propose changes of it instead.")
        shown = self._shown_before()
        if shown is not None:  # the app ended while the user looked at it
            return await self.approvals.approval(shown.plan_id)
        plan = await make_plan(self._parts, goal, steps)
        check_not_rejected(state, plan)
        await self._parts.store.commit(PlanProposed(plan=plan))
        if len(plan.steps) > SOFT_STEPS:
            self._parts.notices.warn("plan.many_steps", steps=str(len(plan.steps)))
        return await self.approvals.approval(plan.plan_id)

    async def revise(self, asked: Revise) -> Output:
        """Change a draft at once; put a change of an approved plan, or its end, before the user.
        Without an id it is the newest where the user has just rejected that, else the one in hand.
        """
        plan_id, changes, end = asked.plan_id, asked.changes, asked.end
        newest = self._parts.store.state.plans[-1:]
        if not plan_id and newest and newest[0].status is PlanStatus.REJECTED:
            plan_id = newest[0].plan_id
        plan = self._plan(plan_id)
        if bool(end) == bool(changes):
            raise ToolFault("Either change steps or end the plan.", Outcome.INVALID)
        if end:
            return await self.approvals.end(plan, end)
        if plan == self._shown_before():  # with these changes
            return await self.approvals.approval(plan.plan_id)
        edits = self._edits(plan, changes)
        try:
            result = apply_edits(plan, edits)
        except PlanProblem as problem:
            raise ToolFault(str(problem), Outcome.INVALID) from problem
        check_not_rejected(self._parts.store.state, result)
        if plan.approved:
            change = self._plan_change(plan, edits, result, asked)
            changed = await self.approvals.change(plan, change)
            self._go_on()
            return changed
        await self._parts.store.commit(PlanRevised(plan=result, by="model"))
        if self.approvals.show_again(plan.plan_id):
            return Output("The draft was changed; the user sees it and has to approve it.")
        return await self.approvals.approval(plan.plan_id, since=plan)

    def _plan_change(
        self, plan: Plan, edits: tuple[PlanEdit, ...], result: Plan, asked: Revise
    ) -> PlanChange:
        """The change of an approved plan, with the requirements that it adds and waives. Raises
        ToolFault for an id that is on no ledger.
        """
        objective = self._parts.store.state.objective
        items = objective.extracted_requirements if objective is not None else ()
        known = {item.requirement_id: item.requirement for item in items}
        for name in asked.waives:
            if name not in known:
                ids = ", ".join(known) or "none"
                raise ToolFault(
                    f"waives: {one_line(name, 60)!r} is no requirement; the ids are {ids}.",
                    Outcome.INVALID,
                )
        claims = None
        if asked.requirements is not None or asked.waives:
            read = (read_requirement(item, []) for item in asked.requirements or ())
            claims = tuple(claim for claim in read if claim is not None)
        return PlanChange(
            change_id=self._parts.ids("change"),
            plan_id=plan.plan_id,
            base=plan.fingerprint,
            edits=edits,
            result=result,
            requirements=claims,
            waives={name: known[name] for name in asked.waives},
        )

    async def update_step(self, step_id: str, status: str, note: str) -> Output:
        """Move a step that no work holds; it begins only when the plan lets it (S2-16)."""
        plan = self._plan("")
        step = self._step(plan, step_id)
        state = self._parts.store.state
        wanted = WorkStatus(status)
        if state.work is not None and state.work.plan_id == plan.plan_id:
            if wanted is WorkStatus.COMPLETED and state.work.step_id == step.step_id:
                return Output(f"Step {step.name!r} ends here.", wanted.value)
            raise ToolFault("Work on the plan is going on; it keeps the steps' status itself.")
        if not plan.approved:
            raise ToolFault(f"The plan is {plan.status.value}; nothing of it is begun or ended.")
        if step.status.lets_others_start:
            raise ToolFault(f"Step {step.name!r} is {step.status.value}; that stays.")
        if wanted is WorkStatus.IN_PROGRESS and step.step_id in held_back(state, plan.plan_id):
            raise ToolFault(f"A change of step {step.name!r} waits for the user's answer.")
        if wanted is WorkStatus.IN_PROGRESS:
            await self._check_goes_on(plan)
        taken = wanted is WorkStatus.COMPLETED and was_told_of(state, step)
        ends = wanted is WorkStatus.COMPLETED and not taken
        if ends and step.status is not WorkStatus.IN_PROGRESS:
            raise ToolFault(f"Step {step.name!r} is {step.status.value}; only what runs can end.")
        report = await self._report_on(plan, step, note) if ends else None
        if report is not None and report.status != "completed":
            raise ToolFault(
                f"Step {step.name!r} stays in progress: {report.cause or report.summary} "
                "Do what is missing, or say that it failed."
            )
        try:
            await self._parts.store.commit(
                StepChanged(
                    plan_id=plan.plan_id,
                    step_id=step.step_id,
                    status=wanted,
                    note=one_line(note, 200),
                    taken=taken,
                    at=self._parts.store.clock.now(),
                )
            )
        except StateError as error:
            raise ToolFault(f"Not changed: {error}.", Outcome.INVALID) from error
        end_idle_plan(self._parts.store, plan.plan_id)
        text = f"Step {step.name!r} is {wanted.value} now."
        if report is not None:
            await self._parts.add_report(report)
            if plan.run is RunMode.STEP:
                text = f"{text} {await self._ask_to_go_on(report)}".rstrip()
        return Output(text, wanted.value)

    async def _report_on(self, plan: Plan, step: Step, note: str) -> StepReport:
        """The report on a step that the model worked on itself, of the calls and the words since
        it began. Raises ToolFault where there are neither.
        """
        store, since = self._parts.store, step.started_at or 0.0
        messages = [m for m in store.state.messages if m.at >= since]
        calls = [m for m in messages if isinstance(m, OperationMessage) and not m.by_user]
        replies = [
            m.text.strip() for m in messages if isinstance(m, AssistantMessage) and not m.aside
        ]
        # The reply that calls the step done is a claim, not what the step brought.
        said = next(filter(None, reversed(replies[:-1])), "")
        if not has_result(calls, said, self._parts.router.registry.specs()):
            raise ToolFault(
                f"Nothing was done or said since step {step.name!r} began: it stays in progress. "
                "Do it first, or say that it failed."
            )
        return await make_report(
            self._parts,
            plan,
            step,
            tuple(calls),
            said=said or note,
            started=store.clock.monotonic() - max(store.clock.now() - since, 0.0),
        )

    async def _ask_to_go_on(self, report: StepReport) -> str:
        """The user's word on going on, after a step that the model worked on itself in a plan that
        goes step by step; empty where nothing is left to begin.
        """
        parts, plan_id = self._parts, report.plan_id
        if not list_ready_steps(self._plan(plan_id)):
            return ""
        card = parts.desk.make_card(
            CardKind.REPORT,
            (GO_ON, STOP, TELL),
            subject=report.report_id,
            plan_id=plan_id,
            step_id=report.step_id,
            report=report,
        )
        try:
            answer = await parts.desk.ask(card)
        except Unanswered as none:
            raise ToolFault(f"The step is completed. {none}", Outcome.STOPPED) from none
        if answer.action == GO_ON.action:
            return "The user wants to go on with the plan."
        if answer.action == TELL.action:
            return f"The user wants instead: {answer.text}"
        self._halt(plan_id, "stopped")
        return _STOPPED_HERE

    async def get(self, plan_id: str) -> Output:
        plan = self._plan(plan_id)
        done, total = plan.progress
        return Output(plan_words(plan), f"{done}/{total}")

    async def generate_list(self, step_id: str) -> Output:
        """Have the tasks of a step listed; they are stored with it (S2-9)."""
        plan = self._plan("")
        ready = list_ready_steps(plan)
        if not step_id and not ready:
            raise ToolFault("No step can begin now, so there is none to list tasks for.")
        step = self._step(plan, step_id) if step_id else ready[0]
        if step.status is not WorkStatus.PENDING:
            raise ToolFault(f"Step {step.name!r} is {step.status.value}; nothing to list.")
        try:
            tasks = await list_tasks(self._parts, plan.plan_id, step.step_id)
        except (LlmError, Unreadable) as error:
            raise ToolFault(f"No usable list of tasks came: {one_line(str(error), 300)}") from error
        except BudgetEnd as end:
            raise ToolFault(NOT_SENT, Outcome.STOPPED) from end
        await self._parts.store.commit(
            StepTasksSet(plan_id=plan.plan_id, step_id=step.step_id, tasks=tasks)
        )
        kind = "need nothing of each other" if is_independent(tasks) else "build on each other"
        return Output(
            f"{len(tasks)} tasks for step {step.step_id} {step.name!r}; they {kind}:\n"
            f"{tasks_words(tasks)}",
            str(len(tasks)),
        )

    async def run(self, step_id: str, task_list: list[ListedTask]) -> Output:
        """Carry out a list at once, or have the plan or a step of it carried out behind the
        decision that asks for it: its steps are part of the same conversation.
        """
        if task_list:
            return await self._run_list(task_list)
        plan, work = self._plan(""), self._parts.store.state.work
        if work is not None:
            raise ToolFault("Work is going on; there is one writer at a time.")
        if plan.status is PlanStatus.COMPLETED and not plan.may_go_on:
            done, total = plan.progress
            return Output(f"The plan is carried out: {run_words(plan)}", f"{done}/{total}")
        if not plan.may_go_on:
            raise ToolFault(
                f"The plan is {plan.status.value}; it runs only as the user approved it.",
                Outcome.INVALID,
            )
        _check_none_in_progress(plan)
        await self._check_goes_on(plan)
        plan = self._plan(plan.plan_id)
        only = ""
        if step_id:
            step = self._step(plan, step_id)
            if step not in list_ready_steps(plan) and step.status not in NOT_DONE:
                raise ToolFault(
                    f"Step {step.name!r} cannot begin: it is {step.status.value}, or what it "
                    "depends on is not done.",
                    Outcome.INVALID,
                )
            only = step.step_id
        self._wanted = plan.plan_id, only
        done, total = plan.progress
        return Output("The steps run now; each reports here.", f"{done}/{total}")

    @property
    def is_due(self) -> bool:
        """Whether the user's word, or the model's call, lets a step begin behind the decision."""
        plan = self._ready_plan(asks=self._wanted is not None)
        return plan is not None and (plan.run is RunMode.ALL or self._wanted is not None)

    @property
    def waiting_step(self) -> Step | None:
        """The next step of the approved plan where it goes step by step and none is in progress."""
        plan = self._ready_plan()
        if plan is None or any(s.status is WorkStatus.IN_PROGRESS for s in plan.steps):
            return None
        return list_ready_steps(plan)[0]

    async def pause(self) -> Output:
        """Halt the work at its next safe point."""
        control = self._control()
        if control is None:
            raise ToolFault("No work is going on.")
        if self._parts.store.state.session.headless:
            raise ToolFault("Nobody is there to let the work go on again; it is not halted.")
        control.pause()
        return Output("The work halts at its next safe point, until the user lets it go on.")

    async def stop(self) -> Output:
        if not self._task_loop.works:
            raise ToolFault("No work is going on.")
        self._task_loop.stop(by_model=True)
        return Output("The work was stopped. What it had done stays.")

    # --- what the turn does ---------------------------------------------------------------------

    async def _work_on(self, plan: Plan, only: str = "") -> PlanResult:
        """Run an approved plan in TaskLoop. Raises WorkFault when it was stopped or broke."""
        control = self._control()
        assert control is not None  # work belongs to a turn
        _check_none_in_progress(plan)
        run = PlanRun(self._parts, control, plan, only)
        try:
            result = await self._worked(run.run())
        except WorkFault:
            self._halt(plan.plan_id, "stopped")
            raise
        if result.outcome != "completed" and not result.suggested:
            self._halt(plan.plan_id, "wish" if result.wish else "stopped")
        return result

    @property
    def goes_on(self) -> bool:
        """Whether the plan in hand has a step that may begin without another word of the user:
        they wanted all of it run, and neither stopped it nor put it aside.
        """
        plan = self._ready_plan()
        return plan is not None and plan.run is RunMode.ALL

    def _ready_plan(self, *, asks: bool = False) -> Plan | None:
        """The plan in hand where the user's word lets it go on and a step of it may begin;
        ``asks``: also where they have to be asked about one that is not done.
        """
        plan = self._parts.store.state.active_plan
        if plan is None or not plan.status.may_run or plan.halted:
            return None
        return plan if list_ready_steps(plan) or (asks and unfinished_step(plan)) else None

    def _halt(self, plan_id: str, halted: Halt) -> None:
        self._parts.store.dispatch(PlanHalted(plan_id=plan_id, halted=halted))

    async def _check_goes_on(self, plan: Plan) -> None:
        """Ask the user before the model goes on with a plan that waits for their word. Raises
        ToolFault where they do not want it.
        """
        if not plan.halted:
            return
        if plan.halted == "stopped":
            raise ToolFault(_STOPPED_HERE, Outcome.REJECTED)
        began = next((s for s in plan.steps if not s.status.lets_others_start), plan.steps[-1])
        card = self._parts.desk.make_card(
            CardKind.BREAKPOINT,
            (GO_ON, STOP),
            began.step_id,
            plan_id=plan.plan_id,
            step_id=began.step_id,
        )
        try:
            answer = await self._parts.desk.ask(card)
        except Unanswered as none:
            raise ToolFault(str(none), Outcome.STOPPED) from none
        if answer.action != GO_ON.action:
            self._halt(plan.plan_id, "stopped")
            raise ToolFault(_STOPPED_HERE, Outcome.REJECTED)
        self._halt(plan.plan_id, "")

    async def run_rest(self, *, asks: bool = False) -> Plan | None:
        """Run what the user approved and nobody has run yet. Returns the plan as it is then, None
        where nothing was run. ``asks``: also ask about a step that is not done and in the way.

        The approval is the user's order: a model that forgets it does not undo it.
        """
        wanted, self._wanted = self._wanted, None
        parts, plan = self._parts, self._ready_plan(asks=asks or wanted is not None)
        if plan is None:
            return None
        only = wanted[1] if wanted is not None and wanted[0] == plan.plan_id else ""
        try:
            result = await self._work_on(plan, only)
        except WorkFault as fault:
            told = fault.told
            parts.notices.warn(told.key, for_model=fault.text, **told.params)
            return None
        after = parts.store.state.get_plan(plan.plan_id)
        key = "work.answered" if result.wish else "work.reported"
        parts.notices.say(key, for_model=run_words(after, result))
        return after

    async def _run_list(self, task_list: list[ListedTask]) -> Output:
        control, parts = self._control(), self._parts
        assert control is not None  # work belongs to a turn
        try:
            tasks = listed(
                task_list,
                parts.router.registry.specs(),
                parts.ids,
                parts.router.registry.argument_problem,
            )
        except ValueError as error:
            raise ToolFault(str(error), Outcome.INVALID) from error
        result = await self._worked(ListRun(parts, control, tasks).run())
        summary = f"{result.succeeded}/{result.total}"
        if result.succeeded < result.total:
            raise ToolFault(result.text, summary=summary)
        return Output(result.text, summary)

    async def _worked(self, body: Coroutine[Any, Any, T]) -> T:
        """Run work in TaskLoop and return its result. Raises WorkFault when it was stopped or
        broke.
        """
        try:
            return await self._task_loop.run(body)
        except WorkStopped as stopped:
            by, code = "The user stopped the work", "stopped"
            if stopped.by_model:
                by, code = "It was ended with task_loop.stop", "stopped_by_model"
            text = f"{by}; what it had done stays."
            raise WorkFault(text, code, Outcome.STOPPED) from stopped
        except WorkBroke as broke:
            text = f"The work broke by a fault of the app: {broke}."
            raise WorkFault(text, "broke", reason=str(broke)) from broke
        except StateError as error:
            raise WorkFault(str(error), "not_now") from error

    def _shown_before(self) -> Plan | None:
        """The draft that waited for approval when an earlier process ended."""
        state = self._parts.store.state
        waited = state.interrupted.plan_card if state.interrupted is not None else ""
        plan = next((p for p in state.plans if p.plan_id == waited), None)
        return plan if plan is not None and plan.status is PlanStatus.DRAFT else None

    # --- finding --------------------------------------------------------------------------------

    def _plan(self, plan_id: str) -> Plan:
        state = self._parts.store.state
        plan = state.active_plan
        if plan_id:
            plan = next((p for p in state.listed_plans if p.plan_id == plan_id), None)
        if plan is None:
            raise ToolFault(
                f"There is no plan {plan_id}.".replace(" .", ".")
                + (" Propose one first." if not state.plans else ""),
                Outcome.INVALID,
            )
        return plan

    def _step(self, plan: Plan, given: str) -> Step:
        step = find_step(plan, given)
        if step is None:
            names = ", ".join(f"{s.step_id} {s.name!r}" for s in plan.steps[:20])
            raise ToolFault(
                f"The plan has no step {one_line(given, 60)!r}. Its steps: {names}.",
                Outcome.INVALID,
            )
        return step

    def _edits(self, plan: Plan, changes: Sequence[StepEdit]) -> tuple[PlanEdit, ...]:
        """The changes with ids of ours; a new step may be named by a later change."""
        new: dict[str, str] = {}

        def found(given: str) -> str:
            if given in new:
                return new[given]
            return self._step(plan, given).step_id

        edits: list[PlanEdit] = []
        for change in changes:
            if change.op == "add":
                step_id = self._parts.ids("step")
                if change.step_id:
                    new[change.step_id] = step_id
            else:
                step_id = found(change.step_id)
            needs = change.depends_on
            edits.append(
                PlanEdit(
                    op=change.op,
                    step_id=step_id,
                    after=found(change.after) if change.after else change.after,
                    name=None if change.name is None else one_line(change.name, 200),
                    description=change.description,
                    depends_on=None if needs is None else tuple(found(need) for need in needs),
                )
            )
        return tuple(edits)


def run_words(plan: Plan, result: PlanResult | None = None) -> str:
    """The outcome of a plan's run, for the model; the reports say the rest."""
    done, total = plan.progress
    result = result or PlanResult()
    lines = [f"{done} of {total} steps are done; the plan is {plan.status.value}."]
    for report in result.reports:
        step = plan.get_step(report.step_id)
        taken = "; the user took it as done" if step is not None and step.taken else ""
        lines.append(f"- {report.step_name}: {report.status}{taken}")
    if result.outcome != "completed" and not result.wish:
        lines.append("The user does not want to go on for now.")
    if result.wish:
        lines.append(f"The user wants instead: {result.wish}")
        last = plan.get_step(result.reports[-1].step_id) if result.reports else None
        if last is not None and last.status is WorkStatus.FAILED:
            lines.append(f"Step {last.name!r} is not done. {_HOW_ON}")
    return "\n".join(lines)
