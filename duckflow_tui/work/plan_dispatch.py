"""Carries out the model's operations on plans and work, and runs an approved plan after a
decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting.lines import format_numbered, format_task
from duckflow_tui.safety.pending_questions import Unanswered
from duckflow_tui.state.base import ModelText, one_line
from duckflow_tui.state.decision import read_requirement
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
    WorkStatus,
    apply_edits,
    find_step,
    list_ready_steps,
)
from duckflow_tui.state.plan_events import (
    PlanHalted,
    PlanProposed,
    PlanRevised,
    WorkFinished,
)
from duckflow_tui.tools.operation import Output, ToolFault
from duckflow_tui.work.budget import BudgetEnd
from duckflow_tui.work.plan_operations import (
    GenerateList,
    GetPlan,
    Nothing,
    Propose,
    Revise,
    RunWork,
    StepEdit,
    UpdateStep,
)
from duckflow_tui.work.plan_run import (
    NOT_DONE,
    PlanResult,
    PlanRun,
    ask_to_begin,
    unfinished_step,
)
from duckflow_tui.work.propose import (
    PlanApprovals,
    describe_plan,
    end_idle_plan,
    find_held_steps,
    make_plan,
    set_step,
    was_answered_in_words,
    was_approved_as_proposed,
    was_just_rejected,
)
from duckflow_tui.work.resumed_work import Rest
from duckflow_tui.work.services import TurnParts
from duckflow_tui.work.steering import TurnControl
from duckflow_tui.work.task_lists import list_tasks
from duckflow_tui.work.task_loop import TaskLoop


class PlanDesk:
    """Carries out operations on plans, one instance per session. ``control`` returns that of the
    running turn, or None.
    """

    def __init__(
        self,
        parts: TurnParts,
        task_loop: TaskLoop,
        control: Callable[[], TurnControl | None],
        go_on: Callable[[], None],
    ) -> None:
        """``go_on`` is called when an approved plan has more steps to run."""
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
        """Make the ToolFault of a refused call, with the text ``plan.NAME`` for models."""
        return ToolFault(ModelText(f"plan.{name}", values), outcome)

    # --- what the model calls -------------------------------------------------------------------

    async def propose_plan(self, arguments: Propose) -> Output:
        """Make a plan, from the model's steps or by the creative role, show it and wait for the
        user's answer (S2-8, S2-22). Raises ToolFault while work runs or if the user just
        rejected the same plan.
        """
        state = self._store.state
        if state.work is not None:
            raise self._make_fault("works")
        shown = self._shown_before()
        if shown is not None:  # the app ended while the user looked at it
            return await self.approvals.ask_for_approval(shown.plan_id)
        plan = await make_plan(self._parts, arguments.goal, arguments.steps)
        self._check_not_rejected(plan)
        await self._store.commit(PlanProposed(plan=plan))
        if len(plan.steps) > SOFT_STEPS:
            self._parts.notices.warn("plan.many_steps", steps=str(len(plan.steps)))
        own = bool(arguments.steps) and not self._parts.models.service.roles.creative
        return await self.approvals.ask_for_approval(plan.plan_id, own=own)

    async def revise_plan(self, arguments: Revise) -> Output:
        """Change a draft at once; for an approved plan, ask the user about the change or the end of
        it. Without an id, the newest plan if the user rejected it, else the active one. Raises
        ToolFault.
        """
        plan_id, newest = arguments.plan_id, self._store.state.plans[-1:]
        if not plan_id and newest and newest[0].status is PlanStatus.REJECTED:
            plan_id = newest[0].plan_id
        plan = self._find_plan(plan_id)
        if bool(arguments.end) == bool(arguments.changes):
            raise self._make_fault("end_or_changes", Outcome.INVALID)
        if arguments.end:
            return await self.approvals.ask_for_end(plan, arguments.end)
        if plan == self._shown_before():  # with these changes
            return await self.approvals.ask_for_approval(plan.plan_id)
        edits = self._make_edits(plan, arguments.changes)
        try:
            result = apply_edits(plan, edits)
        except PlanProblem as problem:
            raise ToolFault(problem.told, Outcome.INVALID) from problem
        self._check_not_rejected(result)
        if plan.approved:
            change = self._plan_change(plan, edits, result, arguments)
            changed = await self.approvals.ask_for_change(plan, change)
            self._go_on()
            return changed
        await self._store.commit(PlanRevised(plan=result, by="model"))
        if self.approvals.show_again(plan.plan_id):
            return Output(self._words("plan.draft_changed"))
        return await self.approvals.ask_for_approval(plan.plan_id, since=plan)

    def _check_not_rejected(self, plan: Plan) -> None:
        """Raise ToolFault if the user just rejected a plan with the same steps."""
        if was_just_rejected(self._store.state, plan):
            raise self._make_fault("rejected_before")

    def _plan_change(
        self, plan: Plan, edits: tuple[PlanEdit, ...], result: Plan, arguments: Revise
    ) -> PlanChange:
        """Build the change of an approved plan, with the requirements that it adds and waives.
        Raises ToolFault for an unknown requirement id.
        """
        objective = self._store.state.objective
        items = objective.extracted_requirements if objective is not None else ()
        known = {item.requirement_id: item.requirement for item in items}
        for name in arguments.waives:
            if name not in known:
                given, ids = repr(one_line(name, 60)), ", ".join(known) or "–"
                raise self._make_fault("no_requirement", Outcome.INVALID, given=given, ids=ids)
        claims = None
        if arguments.requirements is not None or arguments.waives:
            read = map(read_requirement, arguments.requirements or ())
            claims = tuple(claim for claim in read if claim is not None)
        return PlanChange(
            change_id=self._parts.ids("change"),
            plan_id=plan.plan_id,
            base=plan.fingerprint,
            edits=edits,
            result=result,
            requirements=claims,
            waives={name: known[name] for name in arguments.waives},
        )

    async def update_step(self, arguments: UpdateStep) -> Output:
        """Set the status of a step while no work runs (S2-16). ``in_progress`` requests its run
        instead; ``completed`` needs the user's own words. Raises ToolFault.
        """
        plan = self._find_plan("")
        step = self._find_step(plan, arguments.step_id)
        wanted, work = WorkStatus(arguments.status), self._store.state.work
        if work is not None:
            if wanted is WorkStatus.COMPLETED and work.step_id == step.step_id:
                return Output(self._words("plan.ends_here", step=step.name), wanted.value)
            raise self._make_fault("works_by_itself")
        if not plan.approved:
            raise self._make_fault("not_begun", status=plan.status.value)
        if step.status.lets_others_start:
            raise self._make_fault("over", step=step.name, status=step.status.value)
        if wanted is WorkStatus.IN_PROGRESS:
            return await self.run_plan(RunWork(step_id=step.step_id))
        taken = wanted is WorkStatus.COMPLETED
        if taken and not was_answered_in_words(self._store.state, step):
            raise self._make_fault("not_running", step=step.name, status=step.status.value)
        set_step(
            self._store,
            plan.plan_id,
            step.step_id,
            wanted,
            one_line(arguments.note, 200),
            taken=taken,
        )
        end_idle_plan(self._store, plan.plan_id)
        text = self._words("plan.step_is_now", step=step.name, status=wanted.value)
        return Output(text, wanted.value)

    async def show_plan(self, arguments: GetPlan) -> Output:
        """Describe a plan with the state of its steps."""
        plan = self._find_plan(arguments.plan_id)
        done, total = plan.progress
        return Output(describe_plan(plan, self._words), f"{done}/{total}")

    async def generate_list(self, arguments: GenerateList) -> Output:
        """Ask a model for the task list of a pending step, and store it with the step (S2-9).
        Raises ToolFault.
        """
        plan = self._find_plan("")
        ready = list_ready_steps(plan)
        if not arguments.step_id and not ready:
            raise self._make_fault("none_ready")
        step = self._find_step(plan, arguments.step_id) if arguments.step_id else ready[0]
        if step.status is not WorkStatus.PENDING:
            raise self._make_fault("nothing_to_list", step=step.name, status=step.status.value)
        try:
            tasks = await list_tasks(self._parts, plan, step)
        except (LlmError, Unreadable) as error:
            raise self._make_fault("no_list", problem=one_line(str(error), 300)) from error
        except BudgetEnd as end:
            raise self._make_fault("limit", Outcome.STOPPED) from end
        told = self._words(
            "plan.listed",
            count=str(len(tasks)),
            step_id=step.step_id,
            step=step.name,
            tasks="\n".join(format_numbered(map(format_task, tasks))),
        )
        return Output(told, str(len(tasks)))

    async def run_plan(self, arguments: RunWork) -> Output:
        """Request the run of the active plan, or of one step; ``run_rest`` runs it after the
        current decision. Raises ToolFault if the plan is not approved or work already runs.
        """
        plan = self._find_plan("")
        done, total = plan.progress
        if self._store.state.work is not None:
            raise ToolFault("work.goes_on")
        if plan.status is PlanStatus.COMPLETED and not plan.may_go_on:
            came = self._describe_run(plan, PlanResult())
            return Output(self._words("plan.carried_out", came=came), f"{done}/{total}")
        if not plan.may_go_on:
            raise self._make_fault("not_approved", Outcome.INVALID, status=plan.status.value)
        held = find_held_steps(self._store.state, plan.plan_id)
        if (
            arguments.step_id
            and (named := self._find_step(plan, arguments.step_id)).step_id in held
        ):
            raise self._make_fault("change_waits", step=named.name)
        await self._check_goes_on(plan)
        only = ""
        if arguments.step_id:
            plan = self._find_plan(plan.plan_id)
            step = self._find_step(plan, arguments.step_id)
            if step not in list_ready_steps(plan) and step.status not in NOT_DONE:
                said = {"step": step.name, "status": step.status.value}
                raise self._make_fault("cannot_begin", Outcome.INVALID, **said)
            only = step.step_id
        self._wanted = plan.plan_id, only
        return Output(self._words("plan.steps_run"), f"{done}/{total}")

    async def pause_work(self, _: Nothing) -> Output:
        """Pause the turn at its next safe point. Raises ToolFault without a turn, or without a user
        who could resume it.
        """
        control = self._control()
        if control is None:
            raise ToolFault("work.none")
        if self._store.state.session.headless:
            raise ToolFault("work.nobody")
        control.pause()
        return Output(self._words("work.halts"))

    async def stop_work(self, _: Nothing) -> Output:
        """Stop the running work; its turn goes on. Raises ToolFault if none runs."""
        if not self._task_loop.is_working:
            raise ToolFault("work.none")
        self._task_loop.stop()
        return Output(self._words("work.stopped"))

    # --- what the turn does ---------------------------------------------------------------------

    @property
    def may_begin_step(self) -> bool:
        """Whether a step may begin after this decision: the user wanted all steps run, or the model
        requested a run.
        """
        plan = self._ready_plan(asks=self._wanted is not None)
        return plan is not None and (plan.run is RunMode.ALL or self._wanted is not None)

    @property
    def takes_calls(self) -> bool:
        """Whether the remaining calls of a decision belong to the first step of the plan that it
        began: the model requested the run, or the user approved the plan unchanged.
        """
        plan = self._store.state.active_plan
        if plan is None or not self.may_begin_step:
            return False
        return self._wanted is not None or was_approved_as_proposed(self._store.state, plan)

    @property
    def waiting_step(self) -> Step | None:
        """The next ready step of the active plan, if the plan may go on; else None."""
        plan = self._ready_plan()
        return list_ready_steps(plan)[0] if plan is not None else None

    @property
    def goes_on(self) -> bool:
        """Whether a step of the active plan may begin without asking the user: they chose to run
        all steps, and have not halted the plan.
        """
        plan = self._ready_plan()
        return plan is not None and plan.run is RunMode.ALL

    async def run_rest(self, rest: Rest | None = None, *, asks: bool = False) -> Plan | None:
        """Run the approved plan, or the step that the model requested. The first step begins with
        the actions in ``rest``. Returns the plan afterwards; None if nothing ran or it was
        stopped. ``asks``: also ask the user about an unfinished step that blocks the plan.

        The plan also runs if the model did not request it, because the user's approval is the
        order.
        """
        wanted, self._wanted = self._wanted, None
        plan = self._ready_plan(asks=asks or wanted is not None)
        if plan is None:
            return None
        only = wanted[1] if wanted is not None and wanted[0] == plan.plan_id else ""
        result = await self._work_on(plan, only, rest)
        if result is None:
            return None
        after = self._store.state.get_plan(plan.plan_id)
        key = "work.answered" if result.wish else "work.reported"
        self._parts.notices.say(key, for_model=self._describe_run(after, result))
        return after

    def _ready_plan(self, *, asks: bool = False) -> Plan | None:
        """Return the active plan if it is approved, not halted, and has a ready step; with
        ``asks``, also if an unfinished step needs a question to the user. Else None.
        """
        plan = self._store.state.active_plan
        if plan is None or not plan.status.may_run or plan.halted:
            return None
        return plan if list_ready_steps(plan) or (asks and unfinished_step(plan)) else None

    def _halt_plan(self, plan_id: str, halted: Halt) -> None:
        """Record why the plan is halted; empty to lift the halt."""
        self._store.dispatch(PlanHalted(plan_id=plan_id, halted=halted))

    async def _check_goes_on(self, plan: Plan) -> None:
        """Ask the user before the model continues a halted plan. Raises ToolFault if they refuse,
        or have stopped it.
        """
        if not plan.halted:
            return
        if plan.halted == "stopped":
            raise self._make_fault("halted", Outcome.REJECTED)
        began = next((s for s in plan.steps if not s.status.lets_others_start), plan.steps[-1])
        try:
            begins = await ask_to_begin(self._parts, plan, began)
        except Unanswered as none:
            raise ToolFault(none.told, Outcome.STOPPED) from none
        if not begins:
            self._halt_plan(plan.plan_id, "stopped")
            raise self._make_fault("halted", Outcome.REJECTED)
        self._halt_plan(plan.plan_id, "")

    def _describe_run(self, plan: Plan, result: PlanResult) -> str:
        """Summarize the run of a plan for the model: its steps, their status, and the
        user's wish.
        """
        steps: list[str] = []
        for report in result.reports:
            step = plan.get_step(report.step_id)
            taken = f"; {self._words('plan.taken')}" if step is not None and step.taken else ""
            steps.append(f"- {report.step_name}: {report.status}{taken}")
        done, total = map(str, plan.progress)
        told = {"done": done, "total": total, "status": plan.status_text}
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

    async def _work_on(self, plan: Plan, only: str, rest: Rest | None) -> PlanResult | None:
        """Run an approved plan, or the step ``only``, as work of the turn; None if the work was
        stopped.
        """
        control = self._control()
        assert control is not None  # work belongs to a turn
        outcome = "failed"
        try:
            run = PlanRun(self._parts, control, plan, only, rest)
            result = await self._task_loop.run(run.run())
        except asyncio.CancelledError:
            outcome, turn = "stopped", asyncio.current_task()
            if turn is not None and turn.cancelling():
                raise
            self._halt_plan(plan.plan_id, "stopped")
            self._parts.notices.warn("work.stopped", for_model=self._words("work.stopped"))
            return None
        finally:
            working = self._store.state.work
            if working is not None:
                self._store.dispatch(WorkFinished(work_id=working.work_id, outcome=outcome))
        if result.outcome != "completed" and not result.suggested:
            self._halt_plan(plan.plan_id, "wish" if result.wish else "stopped")
        return result

    # --- finding --------------------------------------------------------------------------------

    def _shown_before(self) -> Plan | None:
        """Return the draft that was waiting for approval when an earlier process ended,
        else None.
        """
        state = self._store.state
        waited = state.interrupted.plan_card if state.interrupted is not None else ""
        plan = next((p for p in state.plans if p.plan_id == waited), None)
        return plan if plan is not None and plan.status is PlanStatus.DRAFT else None

    def _find_plan(self, plan_id: str) -> Plan:
        """Return the plan with this id, or the active plan for an empty id. Raises ToolFault."""
        state = self._store.state
        plan = state.active_plan
        if plan_id:
            plan = next((p for p in state.listed_plans if p.plan_id == plan_id), None)
        if plan is None:
            name = "no_such_plan" if plan_id else "no_plan"
            raise self._make_fault(name, Outcome.INVALID, plan=plan_id)
        return plan

    def _find_step(self, plan: Plan, given: str) -> Step:
        """Return the step that the model names. Raises ToolFault."""
        step = find_step(plan, given)
        if step is None:
            names = ", ".join(f"{s.step_id} {s.name!r}" for s in plan.steps[:20])
            said = {"given": repr(one_line(given, 60)), "steps": names}
            raise self._make_fault("no_step", Outcome.INVALID, **said)
        return step

    def _make_edits(self, plan: Plan, changes: Sequence[StepEdit]) -> tuple[PlanEdit, ...]:
        """Convert the model's changes to edits with our ids. Later changes may refer to a new step
        by the id that the model gave it. Raises ToolFault.
        """
        new: dict[str, str] = {}

        def find_id(given: str) -> str:
            """Return the id of the step that the model names, also of one added before."""
            return new.get(given) or self._find_step(plan, given).step_id

        edits: list[PlanEdit] = []
        for change in changes:
            if change.op == "add":
                step_id = self._parts.ids("step")
                if change.step_id:
                    new[change.step_id] = step_id
            else:
                step_id = find_id(change.step_id)
            needs = change.depends_on
            edits.append(
                PlanEdit(
                    op=change.op,
                    step_id=step_id,
                    after=find_id(change.after) if change.after else change.after,
                    name=None if change.name is None else one_line(change.name, 200),
                    description=change.description,
                    depends_on=None if needs is None else tuple(find_id(need) for need in needs),
                )
            )
        return tuple(edits)
