"""States and operations to compile prompts from; every value fixed, nothing from the clock."""

from __future__ import annotations

from pathlib import Path

from duckflow_tui.places import find_assets
from duckflow_tui.prompting.budget import Budgets, ScriptCounter
from duckflow_tui.prompting.compiler import PromptCompiler
from duckflow_tui.prompting.layers import LongMemory, ModeChoice
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, NoticeMessage, UserMessage
from duckflow_tui.state.decision import Action, NextStep, TurnDecision
from duckflow_tui.state.gates import Gate, Impact
from duckflow_tui.state.goal import Evidence, RequirementItem, TaskObjective
from duckflow_tui.state.memory import WorkingMemory
from duckflow_tui.state.operations import (
    Effect,
    FileChange,
    OperationResult,
    OperationSpec,
    Outcome,
    Risk,
    Zone,
)
from duckflow_tui.state.phase import Phase, Status
from duckflow_tui.state.plan import Plan, PlanStatus, Step, WorkStatus
from duckflow_tui.state.session import SessionInfo
from duckflow_tui.state.turn import TurnInfo

START = 1_750_000_000.0

READ = OperationSpec(
    name="files.look",
    summary="Read a text file, whole or a range of lines.",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Relative to the workspace."},
            "start_line": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["path"],
    },
    effect=Effect.READ,
)
EDIT = OperationSpec(
    name="files.mend",
    summary="Replace exact passages of a file.",
    parameters={
        "type": "object",
        "$defs": {
            "Edit": {
                "type": "object",
                "properties": {
                    "old": {"type": "string"},
                    "new": {"type": "string"},
                    "all": {"type": "boolean"},
                },
                "required": ["old", "new"],
            }
        },
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
            "style": {"enum": ["strict", "loose"]},
        },
        "required": ["path", "edits"],
    },
    effect=Effect.WRITE,
)
OPERATIONS = (READ, EDIT)


def compiler(
    language: str = "en",
    budgets: Budgets | None = None,
    folder: Path | None = None,
    *,
    mode: ModeChoice = "auto",
    memory: LongMemory | None = None,
) -> PromptCompiler:
    """A compiler over the product's own prompt files."""
    return PromptCompiler(
        folder or find_assets("prompts"),
        language,
        budgets or Budgets(),
        ScriptCounter(),
        mode=mode,
        memory=lambda: memory or LongMemory(),
    )


class Talk:
    """Writes a conversation into a state, one message a second."""

    def __init__(self, state: AgentState | None = None) -> None:
        self.state = state or AgentState()
        self._count = 0

    def _next(self) -> int:
        self._count += 1
        return self._count

    def user(self, text: str, *, turn: bool = True, aside: bool = False) -> UserMessage:
        """A message of the user; with ``turn`` it begins one, unless it is an ``aside``."""
        n = self._next()
        turn = turn and not aside
        message = UserMessage(message_id=f"msg_{n:08x}", text=text, aside=aside, at=START + n)
        self.state.messages.append(message)
        if turn:
            self.state.turn = TurnInfo(
                turn_id=f"turn_{n:08x}",
                message_id=message.message_id,
                loop=1,
                limit=14,
                started_at=START + n,
            )
        return message

    def assistant(
        self,
        text: str,
        *actions: Action,
        rationale: str = "",
        step_id: str = "",
        aside: bool = False,
    ) -> None:
        """A reply with its decision."""
        n = self._next()
        self.state.messages.append(
            AssistantMessage(
                message_id=f"msg_{n:08x}",
                llm_id=f"llm_{n:08x}",
                text=text,
                decision=TurnDecision(
                    decision_id=f"dec_{n}",
                    rationale=rationale,
                    reply=text,
                    next_step=NextStep.CONTINUE if actions else NextStep.DONE,
                    actions=actions,
                ),
                step_id=step_id,
                aside=aside,
                at=START + n,
            )
        )

    def result(
        self, text: str, path: str = "src/app.py", outcome: Outcome = Outcome.OK, added: int = 0
    ) -> None:
        """A call and what came of it; ``added`` lines make it a change."""
        n = self._next()
        changes = (FileChange(path=path, kind="modify", added=added, removed=1),) if added else ()
        self.state.messages.append(
            OperationMessage(
                call_id=f"call_{n:08x}",
                operation="files.look",
                args={"path": path},
                result=OperationResult(outcome=outcome, text=text, changes=changes),
                at=START + n,
            )
        )

    def act(self, *paths: str, step_id: str = "", aside: bool = False) -> tuple[Action, ...]:
        """One decision with a call for each path, none of which has its result yet."""
        n = self._count + 1
        calls = tuple(
            Action(
                call_id=f"call_a{n:04x}{place:03x}",
                operation="files.look",
                args={"path": path},
                reasoning=f"see {path}",
            )
            for place, path in enumerate(paths)
        )
        words = f"read {', '.join(paths)}"
        self.assistant("", *calls, rationale=words, step_id=step_id, aside=aside)
        return calls

    def came(
        self, call: Action, text: str, outcome: Outcome = Outcome.OK, step_id: str = ""
    ) -> None:
        """What came of a call of ``act``."""
        n = self._next()
        self.state.messages.append(
            OperationMessage(
                call_id=call.call_id,
                operation=call.operation,
                args=call.args,
                reasoning=call.reasoning,
                result=OperationResult(outcome=outcome, text=text),
                step_id=step_id,
                at=START + n,
            )
        )

    def loop(self, result: str, path: str = "src/app.py", reply: str = "") -> None:
        """One decision with one call, and the call's result."""
        call = Action(
            call_id=f"call_{self._count + 2:08x}",
            operation="files.look",
            args={"path": path},
            reasoning=f"see {path}",
        )
        self.assistant(reply, call, rationale=f"read {path}")
        self.result(result, path)

    def notice(self, for_model: str) -> None:
        """A word of the app."""
        n = self._next()
        self.state.messages.append(
            NoticeMessage(message_id=f"msg_{n:08x}", key="k", for_model=for_model, at=START + n)
        )


def busy_state(phase: Phase = Phase.EXECUTION) -> AgentState:
    """A state in which every field of a prompt has something to say."""
    talk = Talk()
    talk.user("Where is the retry logic?")
    talk.loop("def retry(): ...", "src/net.py")
    talk.assistant("In `src/net.py`, line 1.")
    talk.user("Add a limit of {n} tries to it, please.")
    talk.loop("def retry(): ...", "src/net.py")
    talk.result("done", "src/net.py", added=3)
    state = talk.state
    state.session = SessionInfo(
        session_id="session_0000abcd", workspace="/home/mika/shop", model="m-1", endpoint="main"
    )
    state.phase = phase
    state.status = Status.IN_PROGRESS
    state.status_detail = "second try after a failed test"
    state.memory = WorkingMemory(
        goal="retry() gives up after n tries and says so",
        why_now="the shop hangs when the bank is down",
        constraints=("no new dependency", "the public names stay"),
        plan_brief=("read retry()", "add the limit", "run the tests"),
        open_questions=("Which default?", "Log or raise?"),
        context_refs=("file:src/net.py", "plan:plan_00000001"),
        decision_log=("limit is an argument", "default is 5"),
        last_delta="src/net.py +3 −1",
    )
    state.objective = TaskObjective(
        objective_id="obj_00000001",
        original_query="Add a limit of {n} tries to it, please.",
        created_at=START,
        extracted_requirements=(
            RequirementItem(
                requirement_id="req_00000001",
                requirement="retry() stops after n tries",
                satisfaction_level=0.5,
                evidence=(Evidence(kind="file", text="src/net.py:3 has the counter"),),
            ),
            RequirementItem(
                requirement_id="req_00000002", requirement="the tests pass", priority=2
            ),
        ),
        accumulated_results=("the counter is in",),
        learned_constraints=("tests need a fake clock",),
        attempted_strategies=("a global counter",),
    )
    state.plans = (
        Plan(
            plan_id="plan_00000001",
            name="Limit the retries",
            goal="retry() gives up",
            status=PlanStatus.IN_PROGRESS,
            steps=(
                Step(step_id="step_00000001", name="Read", status=WorkStatus.COMPLETED),
                Step(
                    step_id="step_00000002",
                    name="Change",
                    description="add the counter",
                    status=WorkStatus.IN_PROGRESS,
                ),
                Step(step_id="step_00000003", name="Test"),
            ),
            success_criteria=("the new test is green",),
        ),
    )
    state.active_plan_id = "plan_00000001"
    state.changed_outside = ("src/bank.py",)
    state.files_read = {"src/net.py": "a" * 64}
    state.gates = (
        Gate(
            gate_id="gate_00000001",
            call_id="call_00000063",
            operation="files.mend",
            args={"path": "src/net.py"},
            args_hash="0" * 64,
            effect=Effect.WRITE,
            intent="Add the counter",
            why="it is asked for",
            impact=Impact(files=1, added=3, zone=Zone.INSIDE, risk=Risk.MEDIUM),
            opened_at=START,
        ),
    )
    return state


def long_talk(exchanges: int, chars: int = 1_500) -> Talk:
    """A conversation of ``exchanges``, each of four messages and two results of ``chars``."""
    talk = Talk()
    line = "    return self._price[item] + tax(item)  # as before\n"
    for n in range(exchanges):
        talk.user(f"Question {n}: what does part {n} do?")
        talk.loop((f"part {n}\n" + line * (chars // len(line) + 1))[:chars], f"src/part_{n}.py")
        talk.assistant(f"Part {n} adds the tax.")
    return talk
