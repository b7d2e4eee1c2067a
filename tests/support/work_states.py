"""A plan at work, to compile prompts from; every value fixed, nothing from the clock."""

from __future__ import annotations

from support.prompt_states import EDIT, READ, START, Talk

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import RunningOperation
from duckflow_tui.state.gates import ACCEPT, REJECT, Card, CardKind, Gate, Impact
from duckflow_tui.state.goal import RequirementItem, TaskObjective
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.operations import Effect, Need, OperationSpec, Outcome, Risk, Zone
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import (
    Plan,
    PlanStatus,
    ReportMessage,
    Step,
    StepReport,
    Task,
    WorkInfo,
    WorkStatus,
)
from duckflow_tui.state.session import SessionInfo

READING, WRITING, TESTING = "step_00000001", "step_00000002", "step_00000003"

PLAN = Plan(
    plan_id="plan_00000001",
    name="Weather page",
    goal="page.html shows today's weather of the user's city",
    status=PlanStatus.IN_PROGRESS,
    steps=(
        Step(
            step_id=READING,
            name="Find the city",
            description="Ask the location server where the user is.",
            status=WorkStatus.COMPLETED,
        ),
        Step(
            step_id=WRITING,
            name="Write the page",
            description="Put the weather of the city into page.html.",
            status=WorkStatus.IN_PROGRESS,
            depends_on=(READING,),
            task_list=(
                Task(
                    task_id="task_00000001",
                    operation="files.look",
                    args={"path": "page.html"},
                    description="see the page",
                    status=WorkStatus.COMPLETED,
                    result="an empty page",
                ),
                Task(
                    task_id="task_00000002",
                    operation="files.mend",
                    args={"path": "page.html", "edits": [{"old": "<body>", "new": "<body>…"}]},
                    description="put the weather in",
                ),
            ),
            started_at=START + 3,
        ),
        Step(step_id=TESTING, name="Check the page", depends_on=(WRITING,)),
    ),
    success_criteria=("page.html names the city",),
    approved="x",
)


def own(name: str, *needs: Need) -> OperationSpec:
    """An operation of the app's own, as only its name and what it needs matter here."""
    return OperationSpec(
        name=name, summary="As it says.", parameters={}, effect=Effect.STATE, needs=needs
    )


PROPOSE = own("plan_tool.propose", Need.CONVERSATION)
REVISE = own("plan_tool.revise", Need.PLAN)
GET = own("plan_tool.get", Need.PLAN)
LIST = own("task_tool.generate_list", Need.PLAN, Need.CONVERSATION)
PAUSE = own("task_loop.pause", Need.WORK)
STOP = own("task_loop.stop", Need.WORK)
STEP_OPERATIONS = (READ, EDIT)
ASIDE_OPERATIONS = (READ, GET, REVISE, PAUSE, STOP)


def working_talk() -> Talk:
    """The user asked, the plan is approved, its second step has looked at two files."""
    talk = Talk()
    state = talk.state
    talk.user("Show me today's weather of my city in page.html, please.")
    talk.assistant("I find out your city first, then write the page.")
    state.messages.append(
        ReportMessage(
            message_id="msg_00000090",
            report=StepReport(
                report_id="report_00000001",
                plan_id=PLAN.plan_id,
                step_id=READING,
                step_name="Find the city",
                status="completed",
                summary="You are in Tokyo.",
                next_action="Write the page",
                succeeded=1,
                files_changed=("city.txt",),
            ),
            step_id=READING,
            at=START + 2,
        )
    )
    first = talk.act("page.html", step_id=WRITING)
    talk.came(first[0], "<html>\n<body>\n</body>\n" + "<!-- padding -->\n" * 40, step_id=WRITING)
    second = talk.act("weather.json", step_id=WRITING)
    talk.came(second[0], "No such file: weather.json", Outcome.ERROR, step_id=WRITING)
    state.session = SessionInfo(
        session_id="session_0000abcd", workspace="/home/mika/page", model="m-1", endpoint="main"
    )
    state.phase, state.status = Phase.EXECUTION, Status.IN_PROGRESS
    state.memory = WorkingMemory(
        goal="page.html names the user's city and its weather of today",
        constraints=("no JavaScript",),
    )
    state.objective = TaskObjective(
        objective_id="obj_00000001",
        original_query="Show me today's weather of my city in page.html, please.",
        created_at=START,
        extracted_requirements=(
            RequirementItem(requirement_id="req_00000001", requirement="page.html names the city"),
        ),
    )
    state.plans = (PLAN,)
    state.active_plan_id = PLAN.plan_id
    state.work = WorkInfo(
        work_id="work_00000001",
        plan_id=PLAN.plan_id,
        step_id=WRITING,
        loop=3,
        limit=10,
        started_at=START,
    )
    return talk


def waiting(state: AgentState) -> None:
    """A call runs, a gate and a card are open."""
    state.running = (
        RunningOperation(
            call_id="call_00000070",
            operation="files.mend",
            args={"path": "page.html"},
            step_id=WRITING,
            started=True,
            at=START,
        ),
    )
    state.gates = (
        Gate(
            gate_id="gate_00000001",
            call_id="call_00000071",
            operation="files.mend",
            args={"path": "style.css"},
            args_hash="0" * 64,
            effect=Effect.WRITE,
            intent="Make the text larger",
            why="it is small",
            impact=Impact(files=1, added=1, zone=Zone.INSIDE, risk=Risk.LOW),
            opened_at=START,
        ),
    )
    state.cards = (
        Card(
            card_id="card_00000001",
            kind=CardKind.PLAN_CHANGE,
            subject="change_00000001",
            options=(ACCEPT, REJECT),
            plan_id=PLAN.plan_id,
            opened_at=START,
        ),
    )
