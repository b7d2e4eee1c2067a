"""The questions that are no decisions: a plan, a list of tasks, a report (S2-18…20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from duckflow_tui.prompting import lines
from duckflow_tui.prompting.digests import recent_exchanges
from duckflow_tui.prompting.frames import framed
from duckflow_tui.prompting.layers import request
from duckflow_tui.prompting.lines import LINE, bullets, numbered, short
from duckflow_tui.prompting.operations import argument_lines, operation_lines
from duckflow_tui.prompting.review_questions import ReviewPrompts
from duckflow_tui.prompting.templates import Template
from duckflow_tui.prompting.texts import PromptTexts
from duckflow_tui.prompting.work_layers import step_results
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import ELLIPSIS
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import OperationSpec
from duckflow_tui.state.plans import SOFT_STEPS
from duckflow_tui.state.prompt import ChatMessage
from duckflow_tui.state.work import Plan, PlanStatus, Step, WorkStatus

_EXCHANGES: Final = 5  # of the conversation, in a line each
_RESULTS: Final = 8  # newest of a step and of those it depends on
_RESULT: Final = 1_500  # characters of each; a list of tasks needs the values themselves
_LOG: Final = 60  # newest entries of a step's log
_NEXT: Final = 3  # steps that come after the one reported on
_GOAL: Final = 2_000  # characters
_FAILURE: Final = 1_000
_ENDED: Final = (PlanStatus.COMPLETED, PlanStatus.FAILED)


class QuestionPrompts:
    """Writes them in one language; the shapes of the replies are in ``llm.purposes``.

    Each is a system message, the same for all, and one of the user with the question.
    ``problems`` say why the last reply was refused; with ``previous``, that reply, they are
    said in a conversation of their own, so that the model sees what it wrote.
    """

    def __init__(self, folder: Path, language: str) -> None:
        """Read the files of ``folder/<language>``; raises TemplateError when one is unusable."""
        self._texts = PromptTexts.load(folder, language)
        self._base = ChatMessage("system", self._texts.base.render())
        self._nothing = self._texts.nothing.render()
        self.review = ReviewPrompts(self._texts)

    def plan(
        self,
        state: AgentState,
        goal: str,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        previous: str = "",
    ) -> tuple[ChatMessage, ...]:
        """A plan for ``goal``: steps with name, description and what they depend on (S2-18)."""
        there = state.active_plan
        if there is not None and there.status in _ENDED:
            there = None
        tried = state.objective.attempted_strategies if state.objective else ()
        values = {
            "operations": operation_lines(operations),
            "goal": framed("goal", _cut(goal, _GOAL)),
            "request": request(state),
            "constraints": _list(state.memory.constraints),
            "requirements": lines.requirements(state),
            "workspace": short(state.session.workspace),
            "conversation": _conversation(state),
            "plan": lines.plan(there),
            "rejection": short(there.rejection, 2 * LINE) if there else "",
            "avoid": _list([short(way) for way in tried]),
            "soft_steps": str(SOFT_STEPS),
        }
        return self._messages(self._texts.ask_plan, values, problems, previous)

    def tasks(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        operations: Sequence[OperationSpec],
        *,
        problems: Sequence[str] = (),
        failure: str = "",
    ) -> tuple[ChatMessage, ...]:
        """The operations of a step, in order (S2-19); after a ``failure`` only the rest."""
        seen = [
            m for s in plan.steps if s.step_id in step.depends_on for m in step_results(state, s)
        ]
        seen += step_results(state, step)
        values = {
            "operations": operation_lines(operations),
            "arguments": argument_lines(operations),
            "request": request(state),
            "constraints": _list(state.memory.constraints),
            "plan_goal": short(plan.goal, 2 * LINE),
            "plan": lines.plan(plan),
            "step_number": str(lines.step_number(plan, step)),
            "step": lines.step(step),
            "needs": "\n".join(lines.needs(state, plan, step)),
            "conversation": _conversation(state),
            "tasks": "\n".join(numbered([lines.task(t) for t in step.task_list])),
            "results": framed("results", "\n".join(numbered(list(map(_whole, seen[-_RESULTS:]))))),
            "failure": framed("failure", _cut(failure, _FAILURE)),
        }
        return self._messages(self._texts.ask_tasks, values, problems)

    def report(
        self,
        state: AgentState,
        plan: Plan,
        step: Step,
        log: Sequence[OperationMessage],
        counts: Mapping[str, int],
        *,
        cause: str = "",
        problems: Sequence[str] = (),
    ) -> tuple[ChatMessage, ...]:
        """What came of a step, from its log; the counts are given, never asked for (S2-20).

        ``cause`` is what the app knows about why it was not done.
        """
        first = max(0, len(log) - _LOG)
        entries = numbered([lines.result(message) for message in log[first:]], first + 1)
        later = plan.steps[lines.step_number(plan, step) :]
        following = [lines.step(s) for s in later if s.status is WorkStatus.PENDING]
        values = {
            "request": request(state),
            "plan_name": short(plan.name),
            "plan_goal": short(plan.goal, 2 * LINE),
            "criteria": _list([short(criterion) for criterion in plan.success_criteria]),
            "step_number": str(lines.step_number(plan, step)),
            "step": lines.step(step),
            "status": step.status.value,
            "note": short(cause or step.note, 2 * LINE),
            "counts": ", ".join(f"{name} {count}" for name, count in counts.items()),
            "log": framed("log", "\n".join(entries) or self._nothing),
            "next_steps": _list(following[:_NEXT]),
        }
        asked = (self._base, ChatMessage("user", self._texts.ask_report.render(values)))
        if not problems:
            return asked
        said = _list([short(problem, 2 * LINE) for problem in problems])
        return (*asked, ChatMessage("user", self._texts.ask_again.render({"problems": said})))

    def _messages(
        self,
        template: Template,
        values: dict[str, str],
        problems: Sequence[str],
        previous: str = "",
    ) -> tuple[ChatMessage, ...]:
        said = _list([short(problem, 2 * LINE) for problem in problems])
        if not (said and previous):
            return (self._base, ChatMessage("user", template.render({**values, "problems": said})))
        return (
            self._base,
            ChatMessage("user", template.render({**values, "problems": ""})),
            ChatMessage("assistant", previous),
            ChatMessage("user", self._texts.ask_again.render({"problems": said})),
        )


def _cut(text: str, limit: int) -> str:
    kept = text[: limit + 1].strip()
    return kept if len(kept) <= limit else kept[: limit - 1].rstrip() + ELLIPSIS


def _whole(message: OperationMessage) -> str:
    """A call and its result with the lines as they are."""
    head = f"{lines.call(message.operation, message.args)} -> [{message.result.outcome.value}]"
    return f"{head}\n{_cut(message.result.text, _RESULT)}"


def _list(items: Sequence[str]) -> str:
    return "\n".join(bullets(items))


def _conversation(state: AgentState) -> str:
    return "\n".join(bullets(recent_exchanges(state.messages, _EXCHANGES)))
