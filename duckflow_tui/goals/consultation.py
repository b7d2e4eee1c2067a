"""Asking the user when the work is stuck or at its limit, and doing what they say (S0-37…43)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.agent.dispatch import waiting_card
from duckflow_tui.goals.attempts import digest_of, execution, failure_analysis
from duckflow_tui.goals.requirements import named_requirement, new_requirement
from duckflow_tui.goals.situations import MOST_TRIED, tried
from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting.lines import framed
from duckflow_tui.safety.desk import Unanswered
from duckflow_tui.state.base import one_line
from duckflow_tui.state.conversation import (
    Level,
    NoticeAdded,
    NoticeMessage,
    UserMessage,
    UserMessageAdded,
)
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.gates import CONSULTATION_OPTIONS, TELL, Card, CardAnswer, CardKind
from duckflow_tui.state.goal import (
    ObjectiveChanged,
    RequirementEdited,
    RequirementItem,
    TaskObjective,
)
from duckflow_tui.state.pace import Pattern, Situation
from duckflow_tui.state.phase import Phase, Status, Trigger

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.goals.pace import PaceKeeper
    from duckflow_tui.state.calls import OperationMessage
    from duckflow_tui.state.turn import TurnOutcome

ConsultEnd = Literal[
    "goes_on",
    "stopped",  # the user wants no more of it now
    "accepted",  # the user takes what there is
    "waits",  # for the user's next message
    "nobody",  # there was nobody to ask
]


@dataclass(frozen=True, slots=True)
class Consulted:
    """What came of it. ``wish``: what a step's conversation is told the user wants instead."""

    end: ConsultEnd = "goes_on"
    next_prompt: PromptPattern | None = None  # None: as the model chose it
    wish: str = ""
    at_limit: bool = False
    met: bool = False  # every requirement that counts

    @property
    def outcome(self) -> tuple[TurnOutcome, Status]:
        """How a turn ends that does not go on."""
        match self.end:
            case "accepted":
                return ("done" if self.met else "partial"), Status.SUCCESS
            case "stopped":
                return "partial", Status.SUCCESS
            case "nobody" if self.at_limit:
                return "limit", Status.REQUIRES_USER_INPUT
            case _:
                return "partial", Status.REQUIRES_USER_INPUT


class Consultation:
    """Belongs to a turn, or to one run of a step, whose thread then hears the user's words."""

    def __init__(
        self,
        parts: TurnParts,
        keeper: PaceKeeper,
        log: Callable[[], Sequence[OperationMessage]],
        *,
        plan_id: str = "",
        step_id: str = "",
    ) -> None:
        """``log``: the calls of the model so far."""
        self._parts = parts
        self._keeper = keeper
        self._log = log
        self._plan_id = plan_id
        self._step_id = step_id
        self._ways = ConsultWays(parts, keeper, log, step_id)

    async def if_due(self) -> Consulted | None:
        """Ask when something is due; None when nothing is. Everything else goes on meanwhile."""
        situation = self._before() or self._now()
        if situation is None:
            return None
        try:
            answer = await self._answer(situation)
        except Unanswered as none:
            if none.reason == "nobody":
                return self._nobody(situation)
            # Renewed: the user let it go on by another key.
            return Consulted("goes_on" if none.reason == "renewed" else "waits")
        return await self._take(answer, situation.pattern)

    def _before(self) -> Situation | None:
        """What the user was being asked when an earlier process ended."""
        card = waiting_card(self._parts.store.state, CardKind.CONSULTATION, self._step_id)
        if card is not None and card.situation is not None:
            self._keeper.asked(card.situation)
            return card.situation
        return None

    def _now(self) -> Situation | None:
        if (grown := self._keeper.grow()) is not None:
            old, new = map(str, grown)
            self._parts.notices.say("pace.grown", step_id=self._step_id, old=old, new=new)
        due = self._keeper.due()
        return None if due is None else self._keeper.asking(due, self._log())

    async def _answer(self, situation: Situation) -> CardAnswer:
        """The user's answer; one that needs words and has none asks again (S0-43)."""
        while True:
            card_id = self._parts.ids("card")
            card = Card(
                card_id=card_id,
                kind=CardKind.CONSULTATION,
                subject=card_id,
                options=CONSULTATION_OPTIONS[situation.pattern],
                plan_id=self._plan_id,
                step_id=self._step_id,
                situation=situation,
                opened_at=self._parts.store.clock.now(),
            )
            answer = await self._parts.cards.ask(card)
            option = next(o for o in card.options if o.action == answer.action)
            if answer.text.strip() or not option.takes_text:
                return answer

    async def _take(self, answer: CardAnswer, pattern: Pattern) -> Consulted:
        ways, text = self._ways, answer.text.strip()
        match answer.action:
            case "stop_work":
                return Consulted("stopped")
            case "accept_result":
                return Consulted("accepted", met=ways.accept_result())
            case "analyse":
                await ways.analyse()
                return Consulted("waits")
            case "keep_going" | "keep_approach":
                return Consulted()  # only the cool-down
            case "more_loops":
                self._keeper.extend(MORE_LOOPS)
                return Consulted()
            case "split" if self._step_id:
                return Consulted("stopped", wish=ways.split_wish())
            case _:
                pass
        self._keeper.forgive()
        match answer.action:
            case "more_info":
                await ways.more_info(text)
            case "other_approach" | "different_approach":
                ways.other_approach()
            case "detailed_requirements":
                await ways.detailed_requirements(text)
            case "split":
                ways.split()
                return Consulted(next_prompt=PromptPattern.BASE_MAIN_SPECIALIZED)
            case "other_source":
                ways.other_source()
            case "top_requirement":
                await ways.top_requirement(text)
            case "start_over":
                ways.start_over()
            case "tidy_results":
                await ways.tidy_results()
            case "other_angle":
                ways.other_angle()
            case "simplify":
                await ways.simplify(text)
            case TELL.action:
                await ways.tell(text)
                if pattern is Pattern.LIMIT:  # words on how to go on are a yes to going on
                    self._keeper.extend(MORE_LOOPS)
            case _:
                raise AssertionError(f"no answer {answer.action!r}")
        return Consulted()

    def _nobody(self, situation: Situation) -> Consulted:
        at_limit = situation.pattern is Pattern.LIMIT
        if at_limit:
            loops = str(situation.limit)
            self._parts.notices.warn("turn.limit", step_id=self._step_id, loops=loops)
        else:
            key = f"consulting.nobody.{situation.pattern.value}"
            self._parts.notices.warn(key, step_id=self._step_id)
        return Consulted("nobody", at_limit=at_limit)


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
        found = await failure_analysis(
            self._parts, self._log(), missing, "consulting.no_analysis", self._step_id
        )
        if found is None:
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
            top = named_requirement(objective, text) or new_requirement(objective, text)
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
                text = await digest_of(self._parts, text)
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
            self._put(new_requirement(objective, text), 1)
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


def _plain(call: str) -> str:
    """A call whose operation is named first, without the room it comes from."""
    name, space, rest = call.partition(" ")
    return f"{name.rpartition('.')[2].replace('_', ' ')}{space}{rest}"
