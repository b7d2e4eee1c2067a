"""Done means met: the review of what the model calls done, and what follows (S1-1, S1-2, S1-23)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.goals.attempts import Attempts, first_plan, in_hand
from duckflow_tui.goals.checks import Finding, RequirementChecks
from duckflow_tui.goals.judging import (
    judged,
    lacking,
    overall,
    passed_suites,
    squeezed,
)
from duckflow_tui.goals.pacemaker import NO_CHANGE, TALK, asked_for, guess
from duckflow_tui.goals.requirements import (
    asked_on,
    hear,
    new_requirement,
    take_requirements,
)
from duckflow_tui.llm.errors import LlmError, Unreadable, because
from duckflow_tui.prompting.lines import call
from duckflow_tui.prompting.questions import (
    missing_question,
    satisfaction_question,
    shown_by,
)
from duckflow_tui.prompting.replies import MissingReply, SatisfactionReply
from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.goal import (
    DONE_FROM,
    VETO_BELOW,
    MissingInfoAnalysis,
    MissingItem,
    ObjectiveReviewed,
    RequirementItem,
    RequirementsFound,
    Review,
    ReviewMessage,
    SatisfactionEvaluation,
    SituationReport,
    TaskObjective,
)
from duckflow_tui.state.operations import ApprovalMode, Effect, Outcome
from duckflow_tui.state.phase import Phase, Status, Trigger
from duckflow_tui.state.turn import TurnOutcome
from duckflow_tui.tools.results import files_before, net_change

if TYPE_CHECKING:
    from duckflow_tui.agent.parts import TurnParts
    from duckflow_tui.goals.pace import PaceKeeper
    from duckflow_tui.state.decision import TurnDecision

_LINE: Final = 500  # characters of a sentence that is kept
_REASON: Final = 200  # characters of what is shown of a fault, or of what nobody saw met
_REQUEST: Final = 500  # characters of a request that is its own requirement, or is looked at

#: Requests that the operations on plan, memory and processes can fulfil.
_INNER: Final = re.compile(
    r"\b(?:plans?|steps?|remember|memory|note|process|server|command)\b"
    r"|計画|手順|ステップ|覚え|メモ|記憶|プロセス|サーバー|コマンド",
    re.IGNORECASE,
)

_FILE: Final = (
    r"[`'\"「]?(?:[\w.-]+/)*(?P<{}>[\w-][\w.-]*\.(?:py|md|rst|txt|toml|ya?ml|json|cfg|ini|ts|tsx|html"
    r"|css|rs|go|java|rb|sh|sql|csv))[`'\"」]?"
)
#: A requirement that can only be met by changing the one file it names: nothing else is surely so.
TO_CHANGE: Final = re.compile(
    r"^(?:please\s+)?(?:add|create|write|update|edit|delete|remove|note|mention|document)\s+"
    r"(?:(?!\S*(?:link|refer|import|point|copy|not\b|that\b|for\b|like\b|from\b|using\b))[^\s,;:]+\s+)"
    r"{0,8}?(?<!\bfor )(?:(?:in|to|into)\s+)?(?:the\s+|a\s+)?(?:new\s+)?(?:file\s+)?"
    + _FILE.format("file")
    + r"(?:\s+(?:file|too|also|as well))?[.!]?$|^"
    + _FILE.format("named")
    + r"\s*(?:ファイル)?(?:[にへ](?!従|沿|基|なら|倣|合わ|参)[^。、ず]{0,20}?|を(?:新しく|新規に)?)"
    r"(?:追加|追記|作成|作る|書く|書い|記載|更新|削除|編集)(?:する|して(?:ください)?|します)?[。]?$",
    re.IGNORECASE,
)

ReviewEnd = Literal[
    "skipped",  # nothing was to be judged
    "done",
    "continue",  # another attempt has begun
    "accepted",  # the user takes what there is
    "cancelled",  # the user wants no more of it
    "refused",  # not done, and the user refused the last change: theirs is the next word
    "unproven",  # it seems done, but what would show it could not be run
    "failed",  # it could not be judged, which was shown
]

#: How a turn ends after such a review; one that is not named here is done.
OUTCOMES: Final[dict[ReviewEnd, tuple[TurnOutcome, Status]]] = {
    "accepted": ("partial", Status.SUCCESS),
    "cancelled": ("stopped", Status.SUCCESS),
    "refused": ("partial", Status.REQUIRES_USER_INPUT),
    "unproven": ("partial", Status.REQUIRES_USER_INPUT),
    "failed": ("partial", Status.ERROR),
}

#: After these nothing of the request is under way or asked any more, though it is not done.
ENDS_WORK: Final = frozenset(OUTCOMES) - {"failed"}


@dataclass(slots=True)
class _Case:
    """What an attempt is judged by."""

    asked: TaskObjective  # as it was when the judgement began
    log: Sequence[OperationMessage]  # the model's calls in this turn
    evidence: Sequence[OperationMessage]  # all calls since the request was made, the user's too
    reply: str  # what the user was told on the request
    last: bool  # no attempt follows it
    #: A change was asked for, and nothing was done that could be one.
    claimed: bool = field(default=False, init=False)
    findings: dict[str, Finding] = field(default_factory=dict[str, Finding])  # by requirement
    changes: str = ""  # of files, from before the first to after the last
    evaluation: SatisfactionEvaluation | None = None  # None: the checks decided everything


class Reviewer:
    """Judges what the model calls done. One for a turn."""

    def __init__(self, parts: TurnParts, keeper: PaceKeeper) -> None:
        self._parts = parts
        self._store = parts.store
        self._keeper = keeper
        self._attempts = Attempts(parts, keeper)
        self._checks = RequirementChecks(parts.store, parts.ids, parts.router)
        self._understood = False  # what the turn's first decision says was taken
        self.satisfaction: float | None = None  # of the newest review of this turn

    def resume(self, decisions: Sequence[TurnDecision]) -> None:
        """The turn goes on behind these decisions, which an earlier process took in."""
        objective = self._store.state.objective
        known = objective is not None and bool(objective.extracted_requirements)
        self._understood = len(decisions) > 1 or bool(decisions and known)

    async def understand(self, decision: TurnDecision) -> None:
        """Node 1 of an attempt: take what the turn's first decision says of the request (S1-24)."""
        if self._understood:  # but for what the user said or refused meanwhile
            await hear(self._parts, "later", decision.requirements)
            return
        self._understood = True
        await take_requirements(self._parts, decision)
        self._attempts.plan = first_plan(self._store.state)

    async def review(self, log: Sequence[OperationMessage], reply: str, *, last: bool) -> ReviewEnd:
        """Judge what the model calls done (S1-27…31). ``log``: its own calls in this turn, those
        of checks left out; ``reply``: its last word to the user; ``last``: no attempt follows, as
        something was denied or the user stopped the plan.

        First the checks, then the evaluator for what they leave open. Completion goes before the
        limit of attempts; a reply that cannot be read is never taken for a yes.
        """
        await hear(self._parts, "review")
        _, objective = in_hand(self._store.state)
        texts = asked_on(self._store.state)
        items, specs = objective.extracted_requirements, self._parts.router.registry.specs()
        wanted = not items
        for item in items:
            wanted = wanted or item.counts
        if not wanted:
            return "skipped"  # the user dropped them all
        if not (items or shown_by(log, specs)):
            # Talk is free, by the user's word or the app's own rules, whatever the model calls it.
            choice = self._store.state.profile_choice
            kinds = {choice} if choice else {guess(text).profile for text in texts}
            wants = "words" if choice else asked_for(texts, reply)
            if wants == "words":
                kinds.discard(None)  # words are asked for, of no kind that takes work
            if TALK.issuperset(kinds) and wants in ("words", "either"):
                return "skipped"
        if self._store.state.phase is Phase.EXECUTION:
            self._parts.machine.move(Phase.REVIEW, Trigger.DONE)
        if not items:  # nobody split it: it is its own requirement
            items = (new_requirement(objective, one_line("; ".join(texts), _REQUEST)),)
            await self._store.commit(
                RequirementsFound(objective_id=objective.objective_id, items=items)
            )
            objective = objective.model_copy(update={"extracted_requirements": items})
        evidence, said = self._since(objective)
        case = _Case(objective, log, evidence, said or reply, last)
        router, worked = self._parts.router, False
        for message in evidence:  # of files, what became of them tells
            if not message.result.changes:
                worked = worked or self._checks.may_have_changed(message)
        before = await files_before(self._store.state, router.blobs)
        case.changes = await net_change(before, router.workspace)
        worked = worked or bool(case.changes)
        talked = False  # words were asked for, and nothing else was done
        if not worked and self._store.state.profile_choice not in TALK:
            reads = {spec.name for spec in specs if spec.effect is Effect.READ}
            within = [m.operation for m in evidence if m.result.went_well]
            if not _INNER.search("\n".join(texts)):
                within = []
            acted = bool(shown_by(evidence, specs) or within)
            denied = {m.operation for m in log if m.result.outcome is Outcome.DENIED}
            match wants := asked_for(texts, case.reply):
                case "change":  # looking is enough only where it is said to be so already
                    so = acted and NO_CHANGE.search(case.reply)
                    case.claimed = not (so or set(within) - reads)
                case "work":
                    case.claimed = not acted
                case _:
                    talked = not acted
            if last and wants != "words" and not (denied and denied <= reads):
                case.claimed = True  # what would have been done was not
        for item in items:
            finding = await self._checks.look(item) if item.counts else None
            if finding is not None:
                case.findings[item.requirement_id] = finding
        try:
            case.evaluation = await self._evaluated(case)
        except LlmError as error:
            self._parts.notices.error("judging.not_judged", **because(error))
            return "failed"
        except Unreadable:
            if talked:
                return "skipped"
            self._parts.notices.error("judging.unreadable")
            return "failed"
        return await self._judge(case)

    async def ask_again(self, review: Review, report: SituationReport) -> ReviewEnd:
        """The user was being asked this after that review when an earlier process ended."""
        _, objective = in_hand(self._store.state)
        self.satisfaction = review.score
        log, _ = self._since(objective)
        return await self._attempts.ask_again(review, report, log)

    async def _judge(self, case: _Case) -> ReviewEnd:
        turn, before = in_hand(self._store.state)
        at = self._store.clock.now()
        items, findings = self._judged_items(case, before, at)
        found = overall(items, findings, case.evaluation)
        unchecked: list[str] = []
        for key, finding in findings.items():
            if finding.outcome == "unchecked":
                unchecked.append(key)
        refused = not found.done and (case.last or self._refused(case.log))
        missing = MissingInfoAnalysis()
        if not found.done:
            missing = lacking(items, findings, case.evaluation)
            if not (refused or found.unproven):
                missing = await self._missing(case, items) or missing
        review = Review(
            review_id=self._parts.ids("review"),
            attempt=turn.attempt,
            max_attempts=turn.max_attempts,
            score=found.score,
            done=found.done,
            items=tuple(items),
            missing=missing.missing,
            evaluation=case.evaluation,
            vetoes=found.vetoes,
            unchecked=tuple(unchecked),
            mismatch=found.mismatch,
            unproven=found.unproven,
        )
        message = ReviewMessage(message_id=self._parts.ids("msg"), review=review, at=at)
        result = self._attempts.result(before, found.score, missing)
        await self._store.commit(ObjectiveReviewed(message=message, result=result))
        self.satisfaction = found.score
        self._keeper.reviewed(review, before)
        if found.done:
            return "done"
        if refused:
            planning = self._store.state.mode is ApprovalMode.PLAN
            told = ("plan_mode" if planning else "halted") if case.last else "refused"
            self._parts.notices.say(f"judging.{told}")
            return "refused"
        if found.unproven:
            unseen = [r.requirement for r in items if r.requirement_id in review.unchecked]
            what = one_line(", ".join(unseen), _REASON)
            self._parts.notices.warn("judging.unproven", what=what)
            return "unproven"
        return await self._attempts.go_on(review, missing, case.evidence)

    def _judged_items(
        self, case: _Case, now: TaskObjective, at: float
    ) -> tuple[list[RequirementItem], dict[str, Finding]]:
        """The requirements that count, judged, and the findings that still hold. What the user
        added or rewrote meanwhile was not judged: it is open, and so not met. Where a change was
        asked for and nothing was done, what the model says of it is a claim and shows nothing; so
        it is where a file was to be changed, and no call and no change names it.
        """
        items, findings = list[RequirementItem](), dict(case.findings)
        specs = self._parts.router.registry.specs()
        if case.claimed:  # of checks only the user's own show that there was nothing to do
            for item in case.asked.extracted_requirements:
                key = item.requirement_id
                refutes = case.last and key in findings and findings[key].outcome == "refuted"
                if not (item.by_user or refutes):
                    findings.pop(key, None)
        texts, suites = [case.changes if case.claimed else f"{case.reply}\n{case.changes}"], ""
        reply = "" if case.claimed else case.reply
        places: dict[str, str] = {"reply": reply, "返答": reply}
        places |= {"changes": case.changes, "diff": case.changes, "変更": case.changes}
        for part in case.changes.split("\n@@ "):
            head, _, lines = part.removeprefix("@@ ").partition("\n")
            path = head.split(" ")[0]
            places[path] = places[path.rpartition("/")[2]] = lines
        for number, message in enumerate(shown_by(case.evidence, specs), 1):
            did = call(message.operation, message.args) if message.result.went_well else ""
            places[str(number)] = f"{did}\n{message.result.text}"  # as the evaluator's log counts
        reads = {spec.name for spec in specs if spec.effect is Effect.READ}
        acted = [case.changes]  # what was done, without what was only seen
        for message in case.evidence:
            if message.result.outcome is Outcome.OK:  # what did not run shows nothing
                texts.append(call(message.operation, message.args))
                acted.append(texts[-1])
            texts.append(message.result.text)
            if message.operation not in reads:
                acted.append(message.result.text)
            for change in message.result.changes:
                acted.append(f"{change.path} {change.target}")
        for finding in findings.values():
            texts.append(finding.words)
            if finding.outcome == "unchecked":
                suites = passed_suites(case.evidence)
        shown, names = squeezed("\n".join(texts)), squeezed("\n".join(acted))
        so_already = NO_CHANGE.search(case.reply) or self._store.state.changed_outside
        for item in now.extracted_requirements:
            if not item.counts:
                continue
            key, old = item.requirement_id, case.asked.requirement(item.requirement_id)
            if old is None or (old.requirement, old.check) != (item.requirement, item.check):
                findings.pop(key, None)
                items.append(item)
            else:
                finding = findings.get(key)
                file = None if so_already else TO_CHANGE.search(item.requirement.strip())
                untouched = file is not None and squeezed(file[1] or file[2]) not in names
                items.append(
                    judged(
                        *(item, finding, case.evaluation, case.evidence, at),
                        *(shown, suites, case.changes, case.claimed or untouched, places),
                    )
                )
        return items, findings

    # --- questions to a model ----------------------------------------------------------------

    async def _evaluated(self, case: _Case) -> SatisfactionEvaluation | None:
        """How far the requirements are met, by the evaluator (S1-8, S1-16); None where checks of
        the user's own decided everything and something was changed, or no attempt follows and the
        app itself sees that it is not done. What a model splits off a request, and the check it
        picks, may be a small part of it: the whole is judged too. For a score or a quote that is
        missing it is asked once more, and where a low word on the whole goes with a low score of
        what its check shows met.
        """
        items: list[RequirementItem] = []
        wanted: list[str] = []
        findings, refuted = dict[str, str](), False
        for item in case.asked.extracted_requirements:
            if not item.counts:
                continue
            items.append(item)
            finding = case.findings.get(item.requirement_id)
            if finding is not None:
                findings[item.requirement_id] = f"{finding.outcome}: {finding.words}"
                refuted = refuted or finding.outcome == "refuted"
            if finding is None or finding.outcome == "unchecked":
                wanted.append(item.requirement_id)
        if not wanted and case.changes and all(item.by_user for item in items):
            return None
        if case.last and (case.claimed or refuted):
            return None

        def read(reply: SatisfactionReply) -> SatisfactionReply:
            if reply.overall_score is None and not (wanted and reply.requirement_scores):
                raise ValueError(
                    "requirement_scores and overall_score are missing, or no numbers, 0.0 to 1.0"
                )
            return reply

        state, specs = self._store.state, self._parts.router.registry.specs()
        told = (findings, case.changes, case.evidence, case.reply, specs)
        question = satisfaction_question(state, items, wanted, *told)
        reply = await self._parts.models.ask(question, read)
        scores = dict(reply.requirement_scores)
        quotes = dict[str, tuple[str, ...]]()
        whole = reply.overall_score
        low = whole is not None and whole < VETO_BELOW
        unsaid: list[str] = []  # requirements without a score, or without a quote for a good one
        for item in items:
            key = item.requirement_id
            quotes[key] = _sentences(reply.evidence.get(key, ()))
            if key in wanted:
                unsaid += [key] * (
                    key not in scores or (scores[key] >= VETO_BELOW and not quotes[key])
                )
            elif low and case.findings[key].outcome == "met" and scores.get(key, 1.0) < VETO_BELOW:
                unsaid.append(key)
        if unsaid:
            question = satisfaction_question(state, items, unsaid, *told, again=True)
            try:
                more = await self._parts.models.ask(question, read)
            except (LlmError, Unreadable) as error:
                self._parts.notices.warn("judging.not_asked_again", **because(error))
                more = reply
            for key in unsaid:
                if key in more.requirement_scores:
                    scores[key] = more.requirement_scores[key]
                quotes[key] = _sentences(more.evidence.get(key, ())) or quotes[key]
            if low and more.overall_score is not None:
                whole = more.overall_score
        if wanted and not scores.keys() & set(wanted):
            raise Unreadable("no requirement was scored")
        if whole is None:  # then the parts say it
            whole = sum(scores.values()) / max(len(scores), 1)
        recommended = reply.completion_recommendation
        return SatisfactionEvaluation(
            overall_score=whole,
            requirement_scores=scores,
            evidence=quotes,
            missing_aspects=_sentences(reply.missing_aspects),
            grade=reply.grade,
            quality_assessment=one_line(reply.quality_assessment, _LINE),
            suggestions=_sentences(reply.suggestions),
            verdict=reply.verdict,
            completion_recommendation=whole >= DONE_FROM if recommended is None else recommended,
        )

    async def _missing(
        self, case: _Case, items: Sequence[RequirementItem]
    ) -> MissingInfoAnalysis | None:
        """What is missing, the most important first, by the fast role (S1-9); None when it could
        not say, which is shown.
        """

        def read(reply: MissingReply) -> MissingInfoAnalysis:
            found = [
                MissingItem(what=one_line(entry.what, _LINE), priority=entry.priority)
                for entry in reply.missing
                if entry.what.strip()
            ]
            if not found:
                raise ValueError("missing is empty, and the work was judged not to be done")
            return MissingInfoAnalysis(
                missing=tuple(sorted(found, key=lambda item: item.priority)),
                constraints=_sentences(reply.constraints),
                suggested_improvements=_sentences(reply.suggested_improvements),
                alternative_strategies=_sentences(reply.alternative_strategies),
            )

        state, specs = self._store.state, self._parts.router.registry.specs()
        question = missing_question(state, items, case.evaluation, case.evidence, case.reply, specs)
        try:
            return await self._parts.models.ask(question, read)
        except (LlmError, Unreadable) as error:
            self._parts.notices.warn("judging.no_missing", **because(error))
            return None

    # --- reading the state -------------------------------------------------------------------

    def _since(self, objective: TaskObjective) -> tuple[list[OperationMessage], str]:
        """All calls since the request was made, the user's own included, the checks left out; and
        what the user was told on it, the last word at the end: an answer may have been given
        before the last one.
        """
        calls: list[OperationMessage] = []
        texts: dict[str, None] = {}
        for message in self._store.state.messages:
            if message.at < objective.created_at:
                continue
            if isinstance(message, OperationMessage) and not message.for_requirement:
                calls.append(message)
            elif isinstance(message, AssistantMessage) and not (message.aside or message.step_id):
                texts.setdefault(message.text.strip())
        return calls, "\n\n".join(filter(None, texts))

    def _refused(self, log: Sequence[OperationMessage]) -> bool:
        """Whether the user's answer to the last effect was no, to all of it or to a part, or their
        own version: then nothing is tried unasked.
        """
        specs = self._parts.router.registry.specs()
        acting = {spec.name for spec in specs if spec.has_side_effects}
        no = (Outcome.REJECTED, Outcome.DECLINED)  # to a plan, too
        effects = [m for m in log if m.operation in acting or m.result.outcome in no]
        if not effects:
            return False
        if effects[-1].result.outcome in no:
            return True
        changes = [message for message in effects if message.result.changes]
        if not changes:
            return False
        gate, answer = changes[-1].gate, changes[-1].answer
        rewritten = gate is not None and gate.edited_by_user
        return rewritten or (answer is not None and bool(answer.left_out))


def _sentences(items: Sequence[str] | str) -> tuple[str, ...]:
    found: list[str] = []
    for item in (items,) if isinstance(items, str) else items:
        if item.strip():
            found.append(one_line(item, _LINE))
    return tuple(found)
