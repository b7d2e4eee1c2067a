"""What each answer to a consultation does: every one changes what the model is told next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from duckflow_tui.llm.errors import LlmError
from duckflow_tui.loops.continuation import execution
from duckflow_tui.loops.llm_services import LLMServices
from duckflow_tui.loops.pace_keeper import PaceKeeper
from duckflow_tui.loops.parts import TurnParts
from duckflow_tui.loops.questions import Unreadable
from duckflow_tui.loops.understanding import next_id
from duckflow_tui.pacing.situations import MOST_TRIED, tried
from duckflow_tui.prompting.frames import framed
from duckflow_tui.state.base import one_line
from duckflow_tui.state.events import (
    NoticeAdded,
    ObjectiveChanged,
    RequirementEdited,
    UserMessageAdded,
)
from duckflow_tui.state.messages import Level, NoticeMessage, OperationMessage, UserMessage
from duckflow_tui.state.objective import RequirementItem, TaskObjective
from duckflow_tui.state.phase import Phase, Trigger

MORE_LOOPS: Final = 5  # that one key adds
_LINE: Final = 200  # characters of a strategy
_DIGEST: Final = 2_000  # characters of tidied results that are kept
_APP: Final = "[Written by the app at a key of the user.]"


class ConsultWays:
    """Belongs to one thread of work."""

    def __init__(
        self,
        parts: TurnParts,
        keeper: PaceKeeper,
        log: Callable[[], Sequence[OperationMessage]],
        step_id: str,
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._keeper = keeper
        self._log = log
        self._step_id = step_id
        self._services = LLMServices(parts)

    def accept_result(self) -> bool:
        """The user takes what there is; returns whether every requirement is met."""
        objective = self._store.state.objective
        if objective is None:
            return False
        if not self._step_id:
            self._change(objective, closed=True)
        met, counted = objective.met
        return met == counted > 0

    async def analyse(self) -> None:
        """Show why it does not get further, and what would mend it."""
        objective = self._store.state.objective
        missing = [
            item.requirement
            for item in (objective.extracted_requirements if objective else ())
            if item.counts and item.satisfaction_level < 1.0
        ]
        try:
            found = await self._services.analyze_execution_failure(execution(self._log()), missing)
        except (LlmError, Unreadable) as error:
            reason = one_line(str(error), _LINE)
            self._parts.notices.warn("consulting.no_analysis", step_id=self._step_id, reason=reason)
            return
        words = framed("analysis", f"Cause: {found.cause}\nFix: {found.fix}")
        self._say(
            "consulting.analysis",
            f"The user had it analysed why the work does not get further:\n{words}\n"
            "The user decides what comes next.",
            cause=found.cause,
            fix=found.fix,
        )

    async def more_info(self, text: str) -> None:
        """Facts that were missing."""
        await self.tell(text)
        self._say(
            "consulting.more_info",
            "What the user says above is new. Take it as given, and do not make the call again "
            "that you made over and over.",
        )

    def other_approach(self) -> None:
        """What was tried is a strategy that failed; the model is told to leave it."""
        objective = self._store.state.objective
        strategy = self._strategy()
        if objective is not None and strategy:
            ways = tuple(dict.fromkeys((*objective.attempted_strategies, strategy)))
            self._change(objective, attempted_strategies=ways)
        self._say(
            "consulting.other_approach",
            "The user wants a completely different approach. Do none of this again:\n"
            f"{framed('tried', self._tried())}\nSay in one line which way you take instead and how "
            "it differs, then take it.",
        )

    async def detailed_requirements(self, text: str) -> None:
        """The request in more detail."""
        await self.tell(text)
        self._say(
            "consulting.detailed",
            "Above the user states in detail what is wanted, because you seemed unsure. It goes "
            "before what you assumed: restate the goal in state_delta, then act on it.",
        )

    def split(self) -> None:
        """Back to planning: small steps, approved one by one by the user."""
        self._parts.machine.move(Phase.PLANNING, Trigger.USER_MESSAGE)
        self._say(
            "consulting.split",
            "The user wants the problem split into smaller ones. Do no more of the work now: "
            "propose a plan with plan_tool.propose whose steps are small enough to be sure of, "
            "the most uncertain one first.",
        )

    def split_wish(self) -> str:
        """The same for a step: its conversation changes the plan."""
        return "the step split into smaller ones: change the plan with plan_tool.revise"

    def other_source(self) -> None:
        """Another model for the rest of the attempt, or, without one, other places to look at."""
        role = self._parts.other_role
        if role is not None and self._keeper.role != role:
            self._keeper.ask_another(role)
            self._say(
                "consulting.other_model",
                "The user wants a second opinion: another model goes on from here. Judge what was "
                "done so far with fresh eyes before you build on it.",
                model=self._parts.other_model,
            )
            return
        self._say(
            "consulting.other_source",
            "The user wants another source consulted. Look where you have not looked yet: the "
            "project's documentation, its tests, its history, other callers, the tools of a "
            "server. Say which source you take, then use it.",
        )

    async def top_requirement(self, text: str) -> None:
        """One requirement goes before all others; by its id or its words, or as a new one."""
        await self.tell(text)
        objective = self._store.state.objective
        if objective is not None:
            top = _found(objective, text) or _new(objective, text)
            self._put(top, 1)
            for item in objective.extracted_requirements:
                if item.requirement_id != top.requirement_id and item.counts and item.priority < 2:
                    self._put(item, 2)
        self._say(
            "consulting.top_requirement",
            "What the user names above is the one requirement that matters most. Meet it first; "
            "leave everything else alone until a result shows that it is met.",
        )

    def start_over(self) -> None:
        """The thread begins anew: what was before travels as digests only."""
        message = NoticeMessage(
            message_id=self._parts.ids("msg"),
            key="consulting.start_over",
            for_model=f"{_APP}\nThe user wants you to start over. What was said and done before is "
            "shortened from here on; files are as the work left them. Read what you need anew, and "
            "begin with the request itself.",
            step_id=self._step_id,
            fresh=True,
            at=self._store.clock.now(),
        )
        self._store.dispatch(NoticeAdded(message=message))

    async def tidy_results(self) -> None:
        """What is known so far, in order; it is kept with the objective."""
        done = execution(self._log())
        lines = [f"- {_plain(text)}" for text in done.results]
        lines += [f"- failed: {_plain(error.operation)}: {error.message}" for error in done.errors]
        text = "\n".join(dict.fromkeys(lines))
        if text:
            try:
                text = await self._services.digest(text)
            except (LlmError, Unreadable) as error:
                reason = one_line(str(error), _LINE)
                self._parts.notices.warn(
                    "consulting.no_digest", step_id=self._step_id, reason=reason
                )
        text = text[:_DIGEST]
        objective = self._store.state.objective
        if objective is not None and text:
            kept = (*objective.accumulated_results, text)
            self._change(objective, accumulated_results=kept)
        self._say(
            "consulting.tidied",
            "The results so far, tidied at the user's wish. Go on from these; what stands here "
            f"need not be looked up again:\n{framed('results', text or 'nothing yet')}",
            digest=text or "–",
        )

    def other_angle(self) -> None:
        """Two other ways are weighed before the next act."""
        self._say(
            "consulting.other_angle",
            "The user wants it seen from another angle. Name in your reply two ways of looking at "
            "the problem that you have not taken yet, say which is the better one and why, then "
            "go on with that one.",
        )

    async def simplify(self, text: str) -> None:
        """A simpler wish takes the place of what was asked for."""
        await self.tell(text)
        objective = self._store.state.objective
        if objective is not None:
            self._put(_new(objective, text), 1)
        self._say(
            "consulting.simplify",
            "The user made the request simpler, in the words above; they are a requirement now. "
            "Do that and no more; drop what only the harder request needed.",
        )

    async def tell(self, text: str) -> None:
        """The user's own words, where the model reads them."""
        message = UserMessage(
            message_id=self._parts.ids("msg"),
            text=text,
            step_id=self._step_id,
            at=self._store.clock.now(),
        )
        await self._store.commit(UserMessageAdded(message=message))

    # --- parts -------------------------------------------------------------------------------

    def _strategy(self) -> str:
        """What the model has been doing, in its own words."""
        brief = "; ".join(self._store.state.memory.plan_brief)
        return one_line(self._keeper.said or brief, _LINE)

    def _tried(self) -> str:
        lines = [f"- {entry.text}" for entry in tried(self._log())[-MOST_TRIED:]]
        strategy = self._strategy()
        return "\n".join([f"- {strategy}", *lines] if strategy else lines)

    def _put(self, item: RequirementItem, priority: int) -> None:
        changed = item.model_copy(update={"priority": priority})
        self._store.dispatch(RequirementEdited(item=changed))

    def _change(self, objective: TaskObjective, **fields: object) -> None:
        changed = objective.model_copy(update=fields)
        self._store.dispatch(ObjectiveChanged(objective=changed))

    def _say(self, key: str, words: str, **params: str) -> None:
        self._parts.notices.say(
            key,
            for_model=f"{_APP}\n{words}",
            step_id=self._step_id,
            aside=False,
            level=Level.INFO,
            **params,
        )


def _found(objective: TaskObjective, text: str) -> RequirementItem | None:
    """The requirement that these words name, by its id or by itself."""
    wanted = " ".join(text.split()).casefold()
    for item in objective.extracted_requirements:
        same = " ".join(item.requirement.split()).casefold()
        if item.counts and wanted in (item.requirement_id, same):
            return item
    return None


def _new(objective: TaskObjective, text: str) -> RequirementItem:
    taken = {item.requirement_id for item in objective.extracted_requirements}
    return RequirementItem(requirement_id=next_id(taken), requirement=text)


def _plain(call: str) -> str:
    """A call whose operation is named first, without the room it comes from."""
    name, space, rest = call.partition(" ")
    return f"{name.rpartition('.')[2].replace('_', ' ')}{space}{rest}"
