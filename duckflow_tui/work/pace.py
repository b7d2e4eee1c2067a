"""The pacemaker of one thread of work: counts loops, updates the vitals, and decides when to ask
the user.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from duckflow_tui.safety.pending_questions import Desk
from duckflow_tui.state.base import StateError, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.decision import TurnDecision
from duckflow_tui.state.goal import RequirementState, Review, TaskObjective
from duckflow_tui.state.operations import Effect, OperationSpec, Outcome, describe_target
from duckflow_tui.state.pace import (
    MORE_LOOPS,
    NEUTRAL_FOCUS,
    NEUTRAL_MOOD,
    LimitExtended,
    LoopLimit,
    Pace,
    Pattern,
    ProfileChosen,
    Reason,
    Situation,
    StepPaced,
    TaskProfile,
    Vital,
    VitalChange,
    VitalsChanged,
)
from duckflow_tui.state.plan import WorkStatus
from duckflow_tui.state.store import Store
from duckflow_tui.state.turn import LoopStarted
from duckflow_tui.state.usage import Role
from duckflow_tui.work import situations, vitals
from duckflow_tui.work.loop_limits import ChosenBy, Pacemaker, log_line, measure_request
from duckflow_tui.work.progress import ProgressWatch, make_same_action
from duckflow_tui.work.requirements import change_objective
from duckflow_tui.work.situations import Signals
from duckflow_tui.work.steering import TurnControl
from duckflow_tui.work.vitals import ConsultCause, ProgressKind, VitalCause, make_reason

IDLE_LOOPS: Final = 2  # decisions in a row that neither act nor end, until the user is asked
_SAID: Final = 300  # characters of the model's own words on what it does


class PaceKeeper:
    """Counts loops, updates the vitals and holds the limit, for one turn or for one run of a step,
    which has its own limit (C1). A loop is one decision of the model with its calls.
    """

    def __init__(
        self,
        store: Store,
        pacemaker: Pacemaker,
        specs: Callable[[], tuple[OperationSpec, ...]],
        *,
        step_id: str = "",
        step_cap: int = 0,
        outcomes: deque[bool] | None = None,
    ) -> None:
        """``step_cap`` is the most loops that a step gets without asking. ``outcomes`` is the
        turn's list of recent outcomes, which its steps share.
        """
        self._store = store
        self._pacemaker = pacemaker
        self._specs = specs
        self._step_id = step_id
        self._step_cap = step_cap
        self.outcomes = deque[bool](maxlen=vitals.OUTCOMES) if outcomes is None else outcomes
        self._watch = ProgressWatch(self._effect_of)
        self.other: Role | None = None  # role chosen by the user for the rest of the attempt
        self._step_profile: TaskProfile | None = None  # of the step, by the model
        self._first = True  # the next decision is the first of the turn
        self._spent = 0  # loops of the turn's earlier attempts
        self._signs = Signals(focus=[store.state.vitals.focus])
        self._lowering: set[VitalCause] = set()  # what lowered the focus since the loop before
        self.said = ""  # what the model said it does, at its newest decision
        self._consulted: list[Pattern] = []  # what the user was asked about

    @property
    def limit(self) -> LoopLimit:
        """The loop limit of this thread, with its reasons. Raises StateError when the work has
        ended.
        """
        state = self._store.state
        pace = state.step_pace if self._step_id else state.pace
        if pace is None:
            raise StateError("there is no limit: the work has ended")
        return pace.limit

    @property
    def role(self) -> Role:
        """The role whose model decides: another one that the user chose, ``strong`` if the request
        is hard, else ``main`` (S1-43).
        """
        if self.other is not None:
            return self.other
        state = self._store.state
        limit = state.pace.limit if state.pace is not None else None
        hard = limit is not None and self._pacemaker.is_hard(limit.profile, measure_request(state))
        return "strong" if hard else "main"

    # --- the course of a turn ----------------------------------------------------------------

    def begin_turn(self, *, fresh: bool) -> None:
        """Set the limit of a new turn. Until the model names the kind of request, it counts as
        unknown, or has the kind that the user chose or the request already has.

        ``fresh``: the turn begins a new request, which refills stamina. A low focus is reset to
        neutral, because repeats are counted anew.
        """
        if fresh:
            self.refresh_vitals()
        else:
            self._take_failures()
        if self._store.state.vitals.focus < NEUTRAL_FOCUS:
            self._move_vital("focus", VitalCause.NEW_OBJECTIVE, {})
            self._signs.focus = [NEUTRAL_FOCUS]
        self._set_limit(fresh=fresh)

    def begin_step(self, loop: int = 0) -> None:
        """Begin a run of a step, with the kind of the request until the model names its own.
        ``loop``: the loop that an earlier process had reached, whose limit is kept.
        """
        self._signs.loop, self._first = loop, loop == 0
        if not loop or self._store.state.step_pace is None:
            self._set_limit()

    def refresh_vitals(self) -> None:
        """Refill stamina, and raise the mood to neutral where it is lower, for a new request."""
        self._move_vital("stamina", VitalCause.NEW_OBJECTIVE, {})
        if self._store.state.vitals.mood < NEUTRAL_MOOD:
            self._move_vital("mood", VitalCause.NEW_OBJECTIVE, {})

    def resume_turn(self, loop: int, decisions: int = 0) -> None:
        """Continue a turn of an earlier process at ``loop`` of its attempt; ``decisions`` counts
        those of all its attempts.
        """
        self._spent = max(decisions - loop, 0)
        self._take_failures()
        self._first = loop == 0
        self._signs.loop = loop

    def next_loop(self) -> int:
        """Count and record one more loop; return its number within the attempt, or within the step
        that runs.
        """
        self._signs.loop += 1
        if self._signs.since_asked is not None:
            self._signs.since_asked += 1
        if self._step_id:
            self._set_step_limit(self.limit)
        else:
            self._store.dispatch(LoopStarted(loop=self._signs.loop, limit=self.limit.max_loops))
        return self._signs.loop

    def take_decision(self, decision: TurnDecision, repaired: int = 0) -> None:
        """Update the mood by a new decision, and lower the focus for each "no" of its own checks
        and each of the ``repaired`` unusable replies before it. The first decision of a turn or
        step also sets the kind of request, and with it the limit. The rationale is kept in
        ``said``.
        """
        if self._first:
            self._take_profile(decision.task_profile)
        self._first = False
        self.said = decision.rationale
        state = self._store.state
        refs: tuple[str, ...] = ()
        for m in reversed(state.messages):
            if isinstance(m, AssistantMessage) and not m.aside and m.step_id == self._step_id:
                refs = (m.message_id,)
                break
        judged = vitals.mood_inputs(
            state.vitals.mood,
            decision.confidence,
            tuple(self.outcomes),
            fruitless=self._signs.fruitless,
        )
        self._move_vital("mood", VitalCause.DECISION, judged, refs=refs)
        self._signs.confidence = judged.get("confidence")
        self._signs.share = judged["share"]
        low = state.vitals.mood < situations.LOW_MOOD
        self._signs.low_moods = self._signs.low_moods + 1 if low else 0
        for check, judgement in (
            ("goal_consistency", decision.goal_consistency),
            ("constraint_check", decision.constraint_check),
        ):
            if judgement.ok is False:
                params = {"check": check, "reason": one_line(judgement.reason, _SAID)}
                self._move_focus(VitalCause.CHECK_NO, params, refs)
        for _ in range(repaired):
            self._move_focus(VitalCause.REPAIRED, {"times": str(repaired)}, refs)

    def take_results(
        self, ran: Sequence[OperationMessage], stuck: tuple[OperationMessage, int] | None = None
    ) -> None:
        """Update focus, stamina and signals at the end of a loop. ``ran`` are its calls; ``stuck``
        is a call that failed repeatedly, with the count, and makes the work count as stuck.

        The focus rises once for each kind of progress. Without any it falls once, for a repeat or
        for calls that brought nothing. Progress resets the counts of failures.
        """
        plans = self._store.state.plans
        done = sum(
            step.status is WorkStatus.COMPLETED and not step.taken
            for plan in plans
            for step in plan.steps
        )
        signs = self._watch.judge_loop(ran, steps_done=done)
        self.outcomes.extend(signs.outcomes)
        self._signs.stuck = signs.stuck
        self._signs.fruitless = signs.fruitless
        if signs.progress:
            self._signs.failed = self._signs.failed_reads = 0
        for message in ran:
            if message.result.outcome is Outcome.ERROR:
                reads = self._is_read(message.operation)
                self._signs.failed_reads += reads
                self._signs.failed += not reads
        if stuck is not None:
            message, times = stuck
            self._signs.stuck = make_same_action(
                message.operation, describe_target(message.args), times
            )
        moved: dict[ProgressKind, tuple[str, list[str]]] = {}
        for progress in signs.progress:
            moved.setdefault(progress.kind, (progress.what, []))[1].extend(progress.refs)
        for kind, (what, refs) in moved.items():
            self._move_focus(VitalCause.PROGRESS, {"kind": kind.value, "what": what}, tuple(refs))
        if (again := signs.repeat) is not None:
            params = {"operation": again.operation, "what": again.what, "times": str(again.times)}
            self._move_focus(VitalCause.REPEAT, params, again.refs)
            self._signs.repeat = again
        elif signs.fruitless:
            last = ran[-1]
            params = {"operation": last.operation, "what": describe_target(last.args)}
            self._move_focus(VitalCause.FRUITLESS, params, signs.refs)
        self._update_stamina(VitalCause.LOOP, refs=signs.refs)
        self._signs.focus.append(self._store.state.vitals.focus)
        self._signs.lowered.append(frozenset(self._lowering))
        self._lowering.clear()
        self._signs.moves.append(bool(signs.progress))

    def count_idle(self, times: int, no: str | None) -> None:
        """Record a decision that neither acted nor ended, the ``times``-th in a row. ``no`` is the
        reason that its own failed check gave; None if it only talked, which lowers the focus. From
        ``IDLE_LOOPS`` on the work counts as stuck, so that the user is asked.
        """
        if no is None:
            self._move_focus(VitalCause.NO_ACTION, {}, ())
            self._signs.focus[-1] = self._store.state.vitals.focus
            self._signs.lowered[-1] |= self._lowering
            self._lowering.clear()
        if times >= IDLE_LOOPS:
            cause, params = ConsultCause.NO_ACTION, dict[str, str]()
            if no is not None:
                cause, params = ConsultCause.CHECKS_NO, {"reason": one_line(no, _SAID)}
            self._signs.stuck = make_reason(cause, **params)

    def take_review(self, review: Review, before: TaskObjective) -> None:
        """Update focus and outcomes by a review. A refuted requirement is a failed outcome; one
        whose level rose since ``before`` the review is progress, which also resets the counts of
        repeats and failures. Requirements that are new since then do not count.
        """
        for item in review.items:
            old = before.get_requirement(item.requirement_id)
            if old is None:
                continue
            if item.state is RequirementState.REFUTED:
                self.outcomes.append(False)
            elif item.satisfaction_level > old.satisfaction_level:
                self.outcomes.append(True)
                self._watch.forgive_repeats()
                self._signs.fruitless, self._signs.failed, self._signs.failed_reads = False, 0, 0
                params = {"kind": ProgressKind.REQUIREMENT.value, "what": item.requirement}
                self._move_focus(VitalCause.PROGRESS, params, (review.review_id,))

    def begin_attempt(self) -> None:
        """Begin a further attempt: count its loops from 0, with a limit no higher than that of the
        failed attempt without what was added to it. Counts of repeats and failures are reset, and
        another role that the user chose no longer decides.
        """
        failed = self.limit
        self._spent += self._signs.loop
        self._signs.loop = 0
        self.other = None
        self._signs.fruitless, self._signs.failed, self._signs.failed_reads = False, 0, 0
        self.forgive_repeats()
        self._set_limit(highest=failed.max_loops - failed.extended)
        self._update_stamina(VitalCause.LOOP)

    def reset_limit(self) -> None:
        """Compute the limit anew after the user chose, or cleared, the kind of request."""
        self._set_limit(before=self.limit)

    def extend_limit(self, by: int) -> None:
        """Raise the limit of this turn or step by ``by`` loops, as the user allowed; stamina rises
        with it.
        """
        if self._step_id:
            own = self.limit
            more = {"max_loops": own.max_loops + by, "extended": own.extended + by}
            self._set_step_limit(own.replace(**more))
        else:
            self._store.dispatch(LimitExtended(by=by))
        self._update_stamina(VitalCause.EXTENDED, {"by": str(by)})

    def grow_limit(self) -> tuple[int, int] | None:
        """At the limit, raise it without asking if the work makes progress, record that, and return
        the old and new limit. None if not at the limit, without progress, at the step's highest
        limit, or for a simple question that a user can be asked about.
        """
        now, headless = self.limit, self._store.state.session.headless
        old = now.max_loops
        if self._signs.loop < old:
            return None
        if now.profile is TaskProfile.SIMPLE_QUESTION and not headless:
            return None
        by = situations.compute_growth(self.collect_signals(), old - now.extended, self._spent)
        if self._step_cap:
            by = min(by, self._step_cap - old)
        if by <= 0:
            return None
        if self._step_id:
            more = {"extended": now.extended + by, "grown": now.grown + by}
            self._set_step_limit(now.replace(max_loops=old + by, **more))
        else:
            self._store.dispatch(LimitExtended(by=by, who="pacemaker"))
        log_line(f"limit grown: {old} -> {old + by}")
        self._update_stamina(VitalCause.GROWN, {"by": str(by)})
        return old, old + by

    def forgive_repeats(self) -> None:
        """Count repeats and low moods anew, and no longer count the work as stuck, after new words
        of the user or another approach.
        """
        self._watch.forgive_repeats()
        self._signs.stuck = self._signs.repeat = None
        self._signs.low_moods = 0
        self._signs.focus = [self._store.state.vitals.focus]
        self._signs.lowered = [frozenset()]
        self._lowering.clear()

    def log_end(self, result: str, why: Reason | None = None) -> None:
        """Log the end of the work: loops used, what the user was asked about, and the outcome
        ``result``; ``why`` is the reason if it ended early.
        """
        patterns = ", ".join(self._consulted)
        in_all = f", {self._spent + self._signs.loop} in all attempts" if self._spent else ""
        log_line(f"used {self._signs.loop}/{self.limit.max_loops}{in_all}")
        log_line(f"interventions: {len(self._consulted)}{f' ({patterns})' if patterns else ''}")
        if why is None:
            log_line(f"result: {result}")
        elif why.code == "user":
            log_line(f"result: {result} (ended by the user's instruction)")
        else:
            log_line(f"result: {result} ({why.code})")

    # --- consulting --------------------------------------------------------------------------

    def make_situation(
        self, due: tuple[Pattern, Reason], log: Sequence[OperationMessage]
    ) -> Situation:
        """Start a consultation: log it, begin the cool-down, and return the situation to show to
        the user. ``due`` is its pattern and cause.
        """
        pattern, cause = due
        log_line(f"loop {self._signs.loop}: detected {cause.code}")
        log_line(f"intervention: {pattern.value} -> consult")
        said = one_line(self.said, _SAID)
        signals, state = self.collect_signals(), self._store.state
        shown = situations.describe_situation(due, signals, log, state, self._is_read, said)
        self.start_cool_down(shown)
        return shown

    def start_cool_down(self, situation: Situation) -> None:
        """Note that the user was shown this situation, begin the cool-down until the next question,
        and clear the count of calls that brought nothing.
        """
        self._consulted.append(situation.pattern)
        self._signs.since_asked = 0
        self._watch.clear_fruitless()

    def collect_signals(self) -> Signals:
        """Return the signals for the rules of consultation, after taking limit, attempt, mood and
        stamina into them from the state.
        """
        state, signs = self._store.state, self._signs
        signs.limit, signs.attempt = self.limit.max_loops, state.turn.attempt if state.turn else 1
        signs.mood, signs.stamina = state.vitals.mood, state.vitals.stamina
        return signs

    # --- the limit ---------------------------------------------------------------------------

    def _take_profile(self, profile: TaskProfile | None) -> None:
        """Store the kind that the first decision names, for the request or the step; update the
        limit if that changes it.
        """
        if profile is not None and self._step_id:
            self._step_profile = profile
        elif profile is not None:
            change_objective(self._store, profile=profile)
        now = self.limit
        if self._choose_profile() != (now.profile, now.chosen_by):
            self._set_limit(before=now)

    def _choose_profile(self) -> tuple[TaskProfile | None, ChosenBy]:
        """Return the kind of request, None if unknown, and whether the user or the model
        chose it.
        """
        state = self._store.state
        if state.profile_choice is not None:
            return state.profile_choice, "user"
        of_request = state.objective.profile if state.objective is not None else None
        return self._step_profile or of_request, "model"

    def _set_limit(
        self, *, fresh: bool = False, before: LoopLimit | None = None, highest: int = 0
    ) -> None:
        """Compute and store the limit, for the step if this is one; parameters as in
        ``Pacemaker.start_session``.
        """
        limit = self._pacemaker.start_session(
            self._store,
            *self._choose_profile(),
            fresh=fresh,
            before=before,
            cap=self._step_cap,
            highest=highest,
        )
        if self._step_id:
            self._set_step_limit(limit)

    def _set_step_limit(self, limit: LoopLimit) -> None:
        """Record the limit of the step with the loops used."""
        self._store.dispatch(StepPaced(pace=Pace(limit=limit, used=self._signs.loop)))

    # --- the vitals --------------------------------------------------------------------------

    def _move_focus(self, cause: VitalCause, params: dict[str, str], refs: tuple[str, ...]) -> None:
        """Change the focus by the amount of this cause; if it falls, note the cause for the
        loop.
        """
        by = vitals.FOCUS_BY[cause]
        if by < 0:
            self._lowering.add(cause)
        inputs = {"old": self._store.state.vitals.focus, "by": by}
        self._move_vital("focus", cause, inputs, params, refs)

    def _take_failures(self) -> None:
        """Restore the counts of failures from the last change of stamina, if there was one."""
        for change in reversed(self._store.state.vitals.history):
            if change.vital == "stamina":
                self._signs.failed = int(change.inputs.get("failed", 0))
                self._signs.failed_reads = int(change.inputs.get("failed_reads", 0))
                return

    def _update_stamina(
        self,
        cause: VitalCause,
        params: dict[str, str] | None = None,
        refs: tuple[str, ...] = (),
    ) -> None:
        """Compute stamina from loops, failures and attempt, and record the change."""
        state = self._store.state
        inputs: dict[str, float] = {
            "loops": self._signs.loop,
            "limit": self.limit.max_loops,
            "failed": self._signs.failed,
            "failed_reads": self._signs.failed_reads,
            "attempt": state.turn.attempt if state.turn else 1,
        }
        self._move_vital("stamina", cause, inputs, params, refs)

    def _move_vital(
        self,
        vital: Vital,
        cause: VitalCause,
        inputs: dict[str, float],
        params: dict[str, str] | None = None,
        refs: tuple[str, ...] = (),
    ) -> None:
        """Compute a vital from its inputs, and record and log the change if there is one."""
        old: float = getattr(self._store.state.vitals, vital)
        new = vitals.compute_vital(vital, inputs)
        if new == old:
            return
        change = VitalChange(
            vital=vital,
            old=old,
            new=new,
            cause=cause.value,
            params=params or {},
            inputs=inputs,
            refs=refs,
            at=self._store.clock.now(),
        )
        self._store.dispatch(VitalsChanged(change=change))
        log_line(f"{vital} {old:.2f}->{new:.2f} ({cause.value})")

    def _effect_of(self, operation: str) -> Effect | None:
        """Return the effect of an operation; None if it is unknown."""
        return next((s.effect for s in self._specs() if s.name == operation), None)

    def _is_read(self, operation: str) -> bool:
        """Whether an operation only reads."""
        return self._effect_of(operation) is Effect.READ


class PaceActions:
    """The user's actions on the pacemaker."""

    def __init__(
        self, store: Store, cards: Desk, control: Callable[[], TurnControl | None]
    ) -> None:
        """``control`` returns that of the running turn, or None."""
        self._store = store
        self._cards = cards
        self._control = control

    def choose_profile(self, profile: TaskProfile | None) -> None:
        """Set the kind of request for this and later requests, and compute running limits anew;
        None lets the model choose again.
        """
        if profile is self._store.state.profile_choice:
            return
        self._store.dispatch(ProfileChosen(profile=profile))
        control = self._control()
        for keeper in (control.turn_pace, control.step_pace) if control is not None else ():
            if keeper is not None:
                keeper.reset_limit()

    def extend_limit(self) -> None:
        """Allow the running step or turn ``MORE_LOOPS`` more loops, and withdraw an open question
        about its limit. Nothing happens while no turn runs.
        """
        control = self._control()
        keeper = control.pace if control is not None else None
        if keeper is None:
            return
        keeper.extend_limit(MORE_LOOPS)
        for card in self._store.state.cards:
            if card.situation is not None and card.situation.pattern is Pattern.LIMIT:
                self._cards.withdraw_question(card.card_id, "renewed")
