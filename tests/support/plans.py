"""Plans in every state that a user meets, with the cards and messages that belong to them."""

from __future__ import annotations

from typing import Any, Final

from support.app_states import store_with, turn_started
from support.conversations import START, assistant, user
from support.gates import gate

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage, RunningOperation
from duckflow_tui.state.conversation import Message
from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SKIP,
    STOP,
    SUGGESTED,
    TAKE,
    TELL,
    Card,
    CardAnswer,
    CardKind,
    CardMessage,
    CardOption,
)
from duckflow_tui.state.operations import OperationResult, Outcome
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import (
    Plan,
    PlanChange,
    PlanEdit,
    PlanStatus,
    ReportMessage,
    RunMode,
    Step,
    StepReport,
    Task,
    WorkInfo,
    WorkStatus,
    apply_edits,
)
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import UsageTotals

PLAN: Final = "plan_00000001"
FIND, FIX, TEST = "step_00000001", "step_00000002", "step_00000003"
NOW: Final = 1_750_000_000.0  # what the clock of the tests says

_EN: Final = {
    "name": "discounts",
    "goal": "two discounts are applied one after the other, with a test for it",
    "criterion": "pytest passes, and a test covers two discounts",
    "find": "Reproduce the wrong total",
    "find_how": "Run the tests and read what total() does with two discounts.",
    "fix": "Fix the calculation",
    "fix_how": "Apply the discounts one after the other.",
    "test": "Test for stacked discounts",
    "test_how": "A test with 10 % twice expects 81.",
    "ask": "The total is wrong when two discounts apply. Fix it, and add a test.",
    "summary": "The rates were added before they were applied.",
    "cause": "pytest could not import the package: the path is not set.",
    "next": "Set PYTHONPATH to src and run the tests again.",
    "read": "read pricing.py",
    "edit": "apply the discounts one by one",
    "run": "run the tests",
}
_JA: Final = {
    "name": "割引の計算",
    "goal": "割引が一つずつ順に適用され、そのテストがある",
    "criterion": "pytest が通り、二重割引のテストがある",
    "find": "誤った合計を再現する",
    "find_how": "テストを動かし、total() が二つの割引をどう扱うかを読む。",
    "fix": "計算を直す",
    "fix_how": "割引を一つずつ順に適用する。",
    "test": "重なる割引のテスト",
    "test_how": "10 % を二度で 81 になることを確かめる。",
    "ask": "割引が二つ重なると合計がおかしくなります。直して、テストも追加してください。",
    "summary": "割引率が足し合わされてから適用されていました。",
    "cause": "pytest がパッケージを読み込めません。パスが設定されていません。",
    "next": "PYTHONPATH を src にしてテストをやり直す。",
    "read": "pricing.py を読む",
    "edit": "割引を一つずつ適用する",
    "run": "テストを動かす",
}


def said(language: str = "en") -> dict[str, str]:
    """The words of the plan in a language."""
    return _JA if language == "ja" else _EN


def draft(language: str = "en", **fields: Any) -> Plan:
    """A plan of three steps, each after the one before."""
    say = said(language)
    steps = (
        Step(step_id=FIND, name=say["find"], description=say["find_how"]),
        Step(step_id=FIX, name=say["fix"], description=say["fix_how"], depends_on=(FIND,)),
        Step(step_id=TEST, name=say["test"], description=say["test_how"], depends_on=(FIX,)),
    )
    values: dict[str, Any] = {
        "plan_id": PLAN,
        "name": say["name"],
        "goal": say["goal"],
        "steps": steps,
        "success_criteria": (say["criterion"],),
        "risk": "low",
        "created_at": NOW,
    }
    return Plan(**(values | fields))


def task(number: int, words: str, status: WorkStatus = WorkStatus.PENDING, **fields: Any) -> Task:
    """One task; one that has ended carries the call of its number."""
    ended = status is not WorkStatus.PENDING
    return Task(
        task_id=f"task_{number}",
        operation="shell.run",
        description=words,
        status=status,
        call_id=f"call_{number:08d}" if ended else "",
        started_at=NOW - 8 if ended else None,
        **fields,
    )


def running(language: str = "en", *, mode: RunMode = RunMode.ALL) -> Plan:
    """The first step is done, the second runs its second task, a breakpoint is before the third."""
    say, plan = said(language), draft(language)
    done = (
        task(3, say["run"], WorkStatus.FAILED, result="1 failed, 11 passed", duration_s=1.9),
        task(4, say["read"], WorkStatus.COMPLETED, result="38 lines", duration_s=0.1),
    )
    tasks = (
        task(5, say["read"], WorkStatus.COMPLETED, result="38 lines", duration_s=0.1),
        task(1, say["edit"], WorkStatus.IN_PROGRESS),
        task(7, say["run"]),
    )
    steps = (
        plan.steps[0].model_copy(
            update={
                "status": WorkStatus.COMPLETED,
                "elapsed_s": 21.0,
                "task_list": done,
                "calls": 3,
                "cost": 0.011,
            }
        ),
        plan.steps[1].model_copy(
            update={
                "status": WorkStatus.IN_PROGRESS,
                "started_at": NOW - 48,
                "task_list": tasks,
                "calls": 2,
            }
        ),
        plan.steps[2].model_copy(update={"break_before": True}),
    )
    plan = plan.model_copy(update={"steps": steps, "status": PlanStatus.IN_PROGRESS, "run": mode})
    return plan.model_copy(update={"approved": plan.fingerprint})


def ended(status: PlanStatus, language: str = "en") -> Plan:
    """The plan at its end: all done, or its second step failed."""
    plan = running(language)
    good = status is PlanStatus.COMPLETED
    update: dict[str, Any] = {"started_at": None, "elapsed_s": 63.0}
    update["status"] = WorkStatus.COMPLETED if good else WorkStatus.FAILED
    ends = WorkStatus.COMPLETED if good else WorkStatus.FAILED
    update["task_list"] = tuple(
        t.model_copy(update={"status": ends}) if t.task_id == "task_1" else t
        for t in plan.steps[1].task_list
    )
    second = plan.steps[1].model_copy(update=update)
    last = plan.steps[2].model_copy(update={"break_before": False})
    if good:
        last = last.model_copy(update={"status": WorkStatus.COMPLETED, "elapsed_s": 12.0})
    return plan.model_copy(update={"steps": (plan.steps[0], second, last), "status": status})


def changed(language: str = "en") -> Plan:
    """What the model would make of the running plan."""
    return revised(running(language), language)


def revised(plan: Plan, language: str = "en") -> Plan:
    """A step more, and the last one another."""
    more = "受け取り票も確かめる" if language == "ja" else "Check the receipt too"
    wider = "割引の組み合わせのテスト" if language == "ja" else "Test combinations of discounts"
    return apply_edits(
        plan,
        (
            PlanEdit(op="add", step_id="step_new", after=FIX, name=more, depends_on=(FIX,)),
            PlanEdit(op="change", step_id=TEST, name=wider, depends_on=("step_new",)),
        ),
    )


def report(language: str = "en", **fields: Any) -> StepReport:
    """How the first step ended."""
    say = said(language)
    values: dict[str, Any] = {
        "report_id": "report_00000001",
        "plan_id": PLAN,
        "step_id": FIND,
        "step_name": say["find"],
        "status": "completed",
        "summary": say["summary"],
        "succeeded": 2,
        "llm_calls": 3,
        "duration_s": 21.0,
        "files_changed": ("tests/test_pricing.py",),
        "next_action": say["next"],
    }
    return StepReport(**(values | fields))


def failed_report(language: str = "en") -> StepReport:
    """How the second step failed."""
    say = said(language)
    return report(
        language,
        report_id="report_00000002",
        step_id=FIX,
        step_name=say["fix"],
        status="failed",
        cause=say["cause"],
        failed=1,
        skipped=1,
        duration_s=63.0,
    )


def plan_card(plan: Plan, before: Plan | None = None) -> Card:
    """The question whether the plan may run."""
    options = (RUN_ALL, RUN_STEPS, EDIT_PLAN, REJECT)
    return card(CardKind.PLAN, plan.fingerprint, options, before=before)


def change_card(language: str = "en", *, reason: str = "") -> Card:
    """The question whether the plan may become another."""
    change = PlanChange(
        change_id="change_1",
        plan_id=PLAN,
        base=running(language).fingerprint,
        edits=(),
        result=changed(language),
        reason=reason,
    )
    return card(CardKind.PLAN_CHANGE, "change_1", (ACCEPT, REJECT), change=change)


def end_card(how: str) -> Card:
    """The question whether the plan may be closed or deleted."""
    return card(CardKind.PLAN_END, how, (ACCEPT, REJECT))


def report_card(about: StepReport) -> Card:
    """The question how to go on after a step."""
    suggested = SUGGESTED.model_copy(update={"label": about.next_action})
    good = about.status == "completed"
    options = (GO_ON, STOP, suggested, TELL) if good else (RETRY, TAKE, SKIP, STOP, suggested, TELL)
    return card(CardKind.REPORT, about.report_id, options, step_id=about.step_id, report=about)


def break_card() -> Card:
    """The question that a breakpoint asks."""
    return card(CardKind.BREAKPOINT, TEST, (GO_ON, STOP), step_id=TEST)


def card(kind: CardKind, subject: str, options: tuple[CardOption, ...], **fields: Any) -> Card:
    """A card about the plan, opened now."""
    return Card(
        card_id=f"card_{kind}",
        kind=kind,
        subject=subject,
        options=options,
        plan_id=PLAN,
        opened_at=NOW,
        **fields,
    )


def ran(number: int, name: str, path: str, step_id: str, **fields: Any) -> OperationMessage:
    """A call of a step that ended."""
    values: dict[str, Any] = {"outcome": Outcome.OK, "text": "", "duration_s": 0.1}
    result = OperationResult(**(values | fields))
    return OperationMessage(
        call_id=f"call_{number:08d}",
        operation=name,
        args={"path": path} if "file" in name else {"command": path},
        result=result,
        step_id=step_id,
        at=START,
    )


def talk(language: str = "en") -> list[Message]:
    """What was said and done until the second step runs."""
    say, plan = said(language), draft(language)
    asked = plan_card(plan)
    answer = CardAnswer(card_id=asked.card_id, subject=asked.subject, action="run_all")
    question = "何が原因でしたか" if language == "ja" else "what was it?"
    reply = "割引率の足し算です。" if language == "ja" else "The rates were **added**."
    return [
        user(say["ask"]),
        CardMessage(message_id="m1", card=asked, plan=plan, answer=answer, at=START),
        ran(
            3,
            "shell.run",
            "pytest -q",
            FIND,
            outcome=Outcome.ERROR,
            summary="1 failed, 11 passed",
            duration_s=1.9,
        ),
        ran(4, "file_ops.read_file", "src/shop/pricing.py", FIND, summary="38 lines"),
        ReportMessage(message_id="m2", report=report(language), step_id=FIND, at=START),
        ran(5, "file_ops.read_file", "src/shop/pricing.py", FIX, summary="38 lines"),
        user(question).model_copy(update={"aside": True}),
        assistant(reply, 4, aside=True),
    ]


def working(language: str = "en", *, at_gate: bool = False, cards: tuple[Card, ...] = ()) -> Store:
    """The second step runs; with ``at_gate`` its edit waits for the user."""
    store = store_with(turn_started())
    state = store.state
    state.plans, state.active_plan_id = (running(language),), PLAN
    state.messages.extend(talk(language))
    state.work = WorkInfo(
        work_id="work_1",
        plan_id=PLAN,
        step_id=FIX,
        mode="tasklist",
        loop=2,
        limit=3,
        started_at=NOW - 48,
    )
    call = RunningOperation(
        call_id="call_00000001",
        operation="file_ops.edit_file",
        args={"path": "src/shop/pricing.py"},
        step_id=FIX,
        started=not at_gate,
        at=NOW - 8,
    )
    state.running = (call,)
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    used(state)
    if at_gate:
        state.gates = (gate(step_id=FIX, can_grant_step=True),)
        state.phase, state.status = Phase.AWAITING_APPROVAL, Status.REQUIRES_USER_INPUT
    state.cards = cards
    return store


def drafted(language: str = "en", before: Plan | None = None) -> Store:
    """A plan waits for the user's answer."""
    store = store_with(turn_started())
    state, plan = store.state, draft(language)
    state.plans, state.active_plan_id = (plan,), PLAN
    state.messages.append(user(said(language)["ask"]))
    state.phase, state.status = Phase.PLANNING, Status.REQUIRES_USER_INPUT
    state.cards = (plan_card(plan, before),)
    used(state)
    return store


def over(status: PlanStatus, language: str = "en") -> Store:
    """The plan is at its end, the reports are in the chat."""
    store = store_with()
    state = store.state
    state.plans, state.active_plan_id = (ended(status, language),), PLAN
    good = status is PlanStatus.COMPLETED
    last = failed_report(language)
    if good:
        words = said(language)
        last = report(language, step_id=FIX, step_name=words["fix"], next_action="", summary="")
    state.messages.extend(talk(language)[:6])
    state.messages.append(ReportMessage(message_id="m3", report=last, step_id=FIX, at=START))
    state.phase, state.status = Phase.DONE, Status.SUCCESS if good else Status.ERROR
    used(state)
    return store


def used(state: AgentState) -> None:
    """Six calls so far."""
    state.usage = UsageTotals(
        calls=6, tokens_in=90_000, cost=0.03, last_context=42_000, context_window=200_000
    )
