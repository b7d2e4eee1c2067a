"""Carries out what the model asks of plans and work, and the rest of a plan that it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.safety.desk import Unanswered
from duckflow_tui.state.base import ModelText, StateError, one_line
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
    WorkFinished,
)
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.propose import (
    PlanApprovals,
    describe_plan,
    describe_tasks,
    end_idle_plan,
    find_held_steps,
    make_plan,
    was_answered_in_words,
    was_approved_as_proposed,
    was_just_rejected,
)
from duckflow_tui.work.report import has_result, is_independent, make_report
from duckflow_tui.work.run import NOT_DONE, ListRun, PlanResult, PlanRun, unfinished_step
from duckflow_tui.work.task_lists import list_tasks, read_tasks

if TYPE_CHECKING:
    from duckflow_tui.tools.plan_operations import ListedTask, PlannedStep, Revise, StepEdit
    from duckflow_tui.work.parts import TurnParts
    from duckflow_tui.work.rest import Rest
    from duckflow_tui.work.steering import TurnControl
    from duckflow_tui.work.task_loop import TaskLoop

T = TypeVar("T")

#: Operations after which the steps of a plan may begin.
BEGINS_PLAN: Final = ("plan_tool.propose", "task_loop.run")


class WorkFault(ToolFault):
    """Raised where a piece of work could not begin, or was stopped; ``key`` names the notice that
    says it to the user.
    """

    def __init__(self, text: str, key: str, outcome: Outcome, **params: str) -> None:
        super().__init__(ModelText(text, params), outcome)
        self.key, self.params = key, params


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
        self._store = parts.store
        self._words = parts.notices.words  # for the model
        self._control = control
        self._go_on = go_on
        self._task_loop = task_loop
        self.approvals = PlanApprovals(parts, task_loop.stop)
        #: The plan that the model asked to be carried out behind its decision, and the one step of
        #: it, empty for all.
        self._wanted: tuple[str, str] | None = None

    def _make_fault(
        self, name: str, outcome: Outcome = Outcome.ERROR, **values: str | ModelText
    ) -> ToolFault:
        """The error of a call, in the words for models of this name."""
        return ToolFault(ModelText(f"plan.{name}", values), outcome)

    # --- what the model calls -------------------------------------------------------------------

    async def propose_plan(self, goal: str, steps: Sequence[PlannedStep] = ()) -> Output:
        """Show a plan, of the model's own steps or made by another, and wait for the user's answer
        (S2-8, S2-22).
        """
        state = self._store.state
        if state.work is not None and state.work.plan_id:
            raise self._make_fault("works")
        shown = self._shown_before()
        if shown is not None:  # the app ended while the user looked at it
            return await self.approvals.ask_for_approval(shown.plan_id)
        plan = await make_plan(self._parts, goal, steps)
        self._check_not_rejected(plan)
        await self._store.commit(PlanProposed(plan=plan))
        if len(plan.steps) > SOFT_STEPS:
            self._parts.notices.warn("plan.many_steps", steps=str(len(plan.steps)))
        own = bool(steps) and not self._parts.models.service.roles.creative
        return await self.approvals.ask_for_approval(plan.plan_id, own=own)

    async def revise_plan(self, asked: Revise) -> Output:
        """Change a draft at once; put a change of an approved plan, or its end, before the user.
        Without an id it is the newest where the user has just rejected that, else the one in hand.
        """
        plan_id, newest = asked.plan_id, self._store.state.plans[-1:]
        if not plan_id and newest and newest[0].status is PlanStatus.REJECTED:
            plan_id = newest[0].plan_id
        plan = self._find_plan(plan_id)
        if bool(asked.end) == bool(asked.changes):
            raise self._make_fault("end_or_changes", Outcome.INVALID)
        if asked.end:
            return await self.approvals.ask_for_end(plan, asked.end)
        if plan == self._shown_before():  # with these changes
            return await self.approvals.ask_for_approval(plan.plan_id)
        edits = self._make_edits(plan, asked.changes)
        try:
            result = apply_edits(plan, edits)
        except PlanProblem as problem:
            raise ToolFault(problem.told, Outcome.INVALID) from problem
        self._check_not_rejected(result)
        if plan.approved:
            change = self._plan_change(plan, edits, result, asked)
            changed = await self.approvals.ask_for_change(plan, change)
            self._go_on()
            return changed
        await self._store.commit(PlanRevised(plan=result, by="model"))
        if self.approvals.show_again(plan.plan_id):
            return Output(self._words("plan.draft_changed"))
        return await self.approvals.ask_for_approval(plan.plan_id, since=plan)

    def _check_not_rejected(self, plan: Plan) -> None:
        """Raise ToolFault for a plan that the user has just rejected: they are not asked again."""
        if was_just_rejected(self._store.state, plan):
            raise self._make_fault("rejected_before")

    def _plan_change(
        self, plan: Plan, edits: tuple[PlanEdit, ...], result: Plan, asked: Revise
    ) -> PlanChange:
        """The change of an approved plan, with the requirements that it adds and waives. Raises
        ToolFault for an id that is on no ledger.
        """
        objective = self._store.state.objective
        items = objective.extracted_requirements if objective is not None else ()
        known = {item.requirement_id: item.requirement for item in items}
        for name in asked.waives:
            if name not in known:
                given, ids = repr(one_line(name, 60)), ", ".join(known) or "–"
                raise self._make_fault("no_requirement", Outcome.INVALID, given=given, ids=ids)
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
        plan = self._find_plan("")
        step = self._find_step(plan, step_id)
        wanted, report, taken = WorkStatus(status), None, False
        work = self._store.state.work
        if work is not None and work.plan_id == plan.plan_id:
            if wanted is WorkStatus.COMPLETED and work.step_id == step.step_id:
                return Output(self._words("plan.ends_here", step=step.name), wanted.value)
            raise self._make_fault("works_by_itself")
        if not plan.approved:
            raise self._make_fault("not_begun", status=plan.status.value)
        if step.status.lets_others_start:
            raise self._make_fault("over", step=step.name, status=step.status.value)
        if wanted is WorkStatus.IN_PROGRESS:
            if step.step_id in find_held_steps(self._store.state, plan.plan_id):
                raise self._make_fault("change_waits", step=step.name)
            await self._check_goes_on(plan)
        elif wanted is WorkStatus.COMPLETED:
            taken = was_answered_in_words(self._store.state, step)
            report = None if taken else await self._report_on(plan, step, note)
        try:
            await self._store.commit(
                StepChanged(
                    plan_id=plan.plan_id,
                    step_id=step.step_id,
                    status=wanted,
                    note=one_line(note, 200),
                    taken=taken,
                    at=self._store.clock.now(),
                )
            )
        except StateError as error:
            raise self._make_fault("cannot_change", Outcome.INVALID, problem=str(error)) from error
        end_idle_plan(self._store, plan.plan_id)
        text = self._words("plan.step_is_now", step=step.name, status=wanted.value)
        if report is not None:
            await self._parts.add_report(report)
            if plan.run is RunMode.STEP:
                text = f"{text} {await self._ask_to_go_on(report)}".rstrip()
        return Output(text, wanted.value)

    async def _report_on(self, plan: Plan, step: Step, note: str) -> StepReport:
        """The report on a step that the model worked on itself, of the calls and the words since
        it began. Raises ToolFault where the step does not run, or is not done by them.
        """
        if step.status is not WorkStatus.IN_PROGRESS:
            raise self._make_fault("not_running", step=step.name, status=step.status.value)
        store, since = self._store, step.started_at or 0.0
        messages = [m for m in store.state.messages if m.at >= since]
        calls = [m for m in messages if isinstance(m, OperationMessage) and not m.by_user]
        replies = [
            m.text.strip() for m in messages if isinstance(m, AssistantMessage) and not m.aside
        ]
        # The reply that calls the step done is a claim, not what the step brought.
        said = next(filter(None, reversed(replies[:-1])), "")
        if not has_result(calls, said, self._parts.router.registry.specs()):
            raise self._make_fault("nothing_done", step=step.name)
        report = await make_report(
            self._parts,
            plan,
            step,
            tuple(calls),
            said=said or note,
            started=store.clock.monotonic() - max(store.clock.now() - since, 0.0),
        )
        if report.status != "completed":
            cause = report.cause or report.summary
            raise self._make_fault("stays_in_progress", step=step.name, cause=cause)
        return report

    async def _ask_to_go_on(self, report: StepReport) -> str:
        """The user's word on going on, after a step that the model worked on itself in a plan that
        goes step by step; empty where nothing is left to begin.
        """
        parts, plan_id = self._parts, report.plan_id
        if not list_ready_steps(self._find_plan(plan_id)):
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
            raise self._make_fault("unanswered", Outcome.STOPPED, problem=none.told) from none
        if answer.action == GO_ON.action:
            return self._words("plan.go_on")
        if answer.action == TELL.action:
            return self._words("plan.wish", wish=answer.text)
        self._halt_plan(plan_id, "stopped")
        return self._words("plan.halted")

    async def show_plan(self, plan_id: str) -> Output:
        plan = self._find_plan(plan_id)
        done, total = plan.progress
        return Output(describe_plan(plan, self._words), f"{done}/{total}")

    async def generate_list(self, step_id: str) -> Output:
        """Have the tasks of a step listed; they are stored with it (S2-9)."""
        plan = self._find_plan("")
        ready = list_ready_steps(plan)
        if not step_id and not ready:
            raise self._make_fault("none_ready")
        step = self._find_step(plan, step_id) if step_id else ready[0]
        if step.status is not WorkStatus.PENDING:
            raise self._make_fault("nothing_to_list", step=step.name, status=step.status.value)
        try:
            tasks = await list_tasks(self._parts, plan.plan_id, step.step_id)
        except (LlmError, Unreadable) as error:
            raise self._make_fault("no_list", problem=one_line(str(error), 300)) from error
        except BudgetEnd as end:
            raise self._make_fault("limit", Outcome.STOPPED) from end
        await self._store.commit(
            StepTasksSet(plan_id=plan.plan_id, step_id=step.step_id, tasks=tasks)
        )
        told = self._words(
            "plan.listed_alone" if is_independent(tasks) else "plan.listed_linked",
            count=str(len(tasks)),
            step_id=step.step_id,
            step=step.name,
            tasks=describe_tasks(tasks),
        )
        return Output(told, str(len(tasks)))

    async def run_plan(self, step_id: str, task_list: list[ListedTask]) -> Output:
        """Run a list of tasks now; or note that the plan, or one step of it, is to run once the
        current decision has ended (``run_rest``). Raises ToolFault where the plan is not approved
        or other work runs.
        """
        if task_list:
            return await self._run_list(task_list)
        plan = self._find_plan("")
        done, total = plan.progress
        if self._store.state.work is not None:
            raise ToolFault("work.goes_on")
        if plan.status is PlanStatus.COMPLETED and not plan.may_go_on:
            came = self._describe_run(plan, PlanResult())
            return Output(self._words("plan.carried_out", came=came), f"{done}/{total}")
        if not plan.may_go_on:
            raise self._make_fault("not_approved", Outcome.INVALID, status=plan.status.value)
        self._check_none_in_progress(plan)
        await self._check_goes_on(plan)
        only = ""
        if step_id:
            plan = self._find_plan(plan.plan_id)
            step = self._find_step(plan, step_id)
            if step not in list_ready_steps(plan) and step.status not in NOT_DONE:
                said = {"step": step.name, "status": step.status.value}
                raise self._make_fault("cannot_begin", Outcome.INVALID, **said)
            only = step.step_id
        self._wanted = plan.plan_id, only
        return Output(self._words("plan.steps_run"), f"{done}/{total}")

    async def pause_work(self) -> Output:
        """Halt the work at its next safe point."""
        control = self._control()
        if control is None:
            raise ToolFault("work.none")
        if self._store.state.session.headless:
            raise ToolFault("work.nobody")
        control.pause()
        return Output(self._words("work.halts"))

    async def stop_work(self) -> Output:
        """End the work now, not its turn."""
        if not self._task_loop.is_working:
            raise ToolFault("work.none")
        self._task_loop.stop()
        return Output(self._words("work.stopped"))

    # --- what the turn does ---------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether the user's word, or the model's call, lets a step begin behind the decision."""
        plan = self._ready_plan(asks=self._wanted is not None)
        return plan is not None and (plan.run is RunMode.ALL or self._wanted is not None)

    @property
    def takes_calls(self) -> bool:
        """Whether the calls behind the one by which the plan begins are those of its first step:
        the model asked for the run, or the user approved the plan as it was proposed.
        """
        plan = self._store.state.active_plan
        if plan is None or not self.is_due:
            return False
        return self._wanted is not None or was_approved_as_proposed(self._store.state, plan)

    @property
    def waiting_step(self) -> Step | None:
        """The next step of the approved plan where it goes step by step and none is in progress."""
        plan = self._ready_plan()
        if plan is None or any(s.status is WorkStatus.IN_PROGRESS for s in plan.steps):
            return None
        return list_ready_steps(plan)[0]

    @property
    def goes_on(self) -> bool:
        """Whether the plan in hand has a step that may begin without another word of the user:
        they wanted all of it run, and neither stopped it nor put it aside.
        """
        plan = self._ready_plan()
        return plan is not None and plan.run is RunMode.ALL

    async def run_rest(self, left: Rest | None = None, *, asks: bool = False) -> Plan | None:
        """Run what the user approved and nobody has run yet; its first step begins with the
        actions ``left`` to it. Returns the plan as it is then, None where nothing was run.
        ``asks``: also ask about a step that is not done and in the way.

        The approval is the user's order: a model that forgets it does not undo it.
        """
        wanted, self._wanted = self._wanted, None
        plan = self._ready_plan(asks=asks or wanted is not None)
        if plan is None:
            return None
        only = wanted[1] if wanted is not None and wanted[0] == plan.plan_id else ""
        notices = self._parts.notices
        try:
            result = await self._work_on(plan, only, left)
        except WorkFault as fault:
            notices.warn(fault.key, for_model=self._words(fault.told), **fault.params)
            return None
        after = self._store.state.get_plan(plan.plan_id)
        key = "work.answered" if result.wish else "work.reported"
        notices.say(key, for_model=self._describe_run(after, result))
        return after

    def _ready_plan(self, *, asks: bool = False) -> Plan | None:
        """The plan in hand where the user's word lets it go on and a step of it may begin;
        ``asks``: also where they have to be asked about one that is not done.
        """
        plan = self._store.state.active_plan
        if plan is None or not plan.status.may_run or plan.halted:
            return None
        return plan if list_ready_steps(plan) or (asks and unfinished_step(plan)) else None

    def _halt_plan(self, plan_id: str, halted: Halt) -> None:
        self._store.dispatch(PlanHalted(plan_id=plan_id, halted=halted))

    def _check_none_in_progress(self, plan: Plan) -> None:
        """Raise WorkFault where the model works on a step itself: it has to say how that ended."""
        step = next((s for s in plan.steps if s.status is WorkStatus.IN_PROGRESS), None)
        if step is not None:
            raise WorkFault("plan.in_progress", "work.busy", Outcome.INVALID, step=step.name)

    async def _check_goes_on(self, plan: Plan) -> None:
        """Ask the user before the model goes on with a plan that waits for their word. Raises
        ToolFault where they do not want it.
        """
        if not plan.halted:
            return
        if plan.halted == "stopped":
            raise self._make_fault("halted", Outcome.REJECTED)
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
            raise ToolFault(none.told, Outcome.STOPPED) from none
        if answer.action != GO_ON.action:
            self._halt_plan(plan.plan_id, "stopped")
            raise self._make_fault("halted", Outcome.REJECTED)
        self._halt_plan(plan.plan_id, "")

    def _describe_run(self, plan: Plan, result: PlanResult) -> str:
        """The outcome of a plan's run, for the model; the reports say the rest."""
        steps: list[str] = []
        for report in result.reports:
            step = plan.get_step(report.step_id)
            taken = f"; {self._words('plan.taken')}" if step is not None and step.taken else ""
            steps.append(f"- {report.step_name}: {report.status}{taken}")
        done, total = map(str, plan.progress)
        told = {"done": done, "total": total, "status": plan.status.value}
        lines = [self._words("work.ran", **told, steps="\n".join(steps))]
        if result.outcome != "completed" and not result.wish:
            lines.append(self._words("plan.halted"))
        if result.wish:
            lines.append(self._words("plan.wish", wish=result.wish))
            last = plan.get_step(result.reports[-1].step_id) if result.reports else None
            if last is not None and last.status is WorkStatus.FAILED:
                lines.append(self._words("plan.wish_on_step", step=last.name))
        return "\n".join(lines)

    # --- work ---------------------------------------------------------------------------------

    async def _work_on(self, plan: Plan, only: str, left: Rest | None) -> PlanResult:
        """Run an approved plan, or one step of it. Raises WorkFault when it was stopped."""
        control = self._control()
        assert control is not None  # work belongs to a turn
        self._check_none_in_progress(plan)
        try:
            result = await self._work_apart(PlanRun(self._parts, control, plan, only, left).run())
        except WorkFault:
            self._halt_plan(plan.plan_id, "stopped")
            raise
        if result.outcome != "completed" and not result.suggested:
            self._halt_plan(plan.plan_id, "wish" if result.wish else "stopped")
        return result

    async def _run_list(self, task_list: list[ListedTask]) -> Output:
        control, parts = self._control(), self._parts
        assert control is not None  # work belongs to a turn
        if self._task_loop.is_working:
            raise ToolFault("work.goes_on")
        try:
            registry, ids = parts.router.registry, parts.ids
            check = registry.check_arguments
            tasks = read_tasks(task_list, registry.specs(), ids, check, self._words)
        except ValueError as error:
            raise ToolFault("text", Outcome.INVALID, text=str(error)) from error
        result = await self._work_apart(ListRun(parts, control, tasks).run())
        summary = f"{result.succeeded}/{result.total}"
        if result.succeeded < result.total:
            raise ToolFault("text", summary=summary, text=result.text)
        return Output(result.text, summary)

    async def _work_apart(self, body: Coroutine[Any, Any, T]) -> T:
        """Run work that can be stopped while its turn goes on. Raises WorkFault when it was."""
        outcome = "failed"
        try:
            return await self._task_loop.run(body)
        except asyncio.CancelledError:
            outcome, turn = "stopped", asyncio.current_task()
            if turn is not None and turn.cancelling():
                raise
            raise WorkFault("work.stopped", "work.stopped", Outcome.STOPPED) from None
        finally:
            left = self._store.state.work
            if left is not None:
                self._store.dispatch(WorkFinished(work_id=left.work_id, outcome=outcome))

    # --- finding --------------------------------------------------------------------------------

    def _shown_before(self) -> Plan | None:
        """The draft that waited for approval when an earlier process ended."""
        state = self._store.state
        waited = state.interrupted.plan_card if state.interrupted is not None else ""
        plan = next((p for p in state.plans if p.plan_id == waited), None)
        return plan if plan is not None and plan.status is PlanStatus.DRAFT else None

    def _find_plan(self, plan_id: str) -> Plan:
        state = self._store.state
        plan = state.active_plan
        if plan_id:
            plan = next((p for p in state.listed_plans if p.plan_id == plan_id), None)
        if plan is None:
            name = "no_such_plan" if plan_id else "no_plan"
            raise self._make_fault(name, Outcome.INVALID, plan=plan_id)
        return plan

    def _find_step(self, plan: Plan, given: str) -> Step:
        step = find_step(plan, given)
        if step is None:
            names = ", ".join(f"{s.step_id} {s.name!r}" for s in plan.steps[:20])
            said = {"given": repr(one_line(given, 60)), "steps": names}
            raise self._make_fault("no_step", Outcome.INVALID, **said)
        return step

    def _make_edits(self, plan: Plan, changes: Sequence[StepEdit]) -> tuple[PlanEdit, ...]:
        """The changes with ids of ours; a new step may be named by a later change."""
        new: dict[str, str] = {}

        def found(given: str) -> str:
            return new.get(given) or self._find_step(plan, given).step_id

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
