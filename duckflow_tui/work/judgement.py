"""Combines the judge's evaluation with the facts into one judgement of a request.

The judge's scores are used as they are, with three rules. A check written by the user overrides the
score of its requirement. The judge must explain a failed run of the project's tests, and a failed
check of a requirement that it scores as met. If no change of the work was carried out, it must name
a fact for each requirement that it scores as met.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.state.base import ModelText, ToldError, one_line
from duckflow_tui.state.goal import (
    DONE_FROM,
    PARTLY_FROM,
    Evidence,
    Judgement,
    MissingItem,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
    count_met,
)
from duckflow_tui.work.judge_facts import Fact, resolve_reference
from duckflow_tui.work.requirements import find_requirement

if TYPE_CHECKING:
    from duckflow_tui.prompting.side_replies import SatisfactionReply
    from duckflow_tui.work.checks import Finding

WEIGHTS: Final = {1: 3, 2: 2, 3: 1}  # weight of a requirement in the mean, by priority
MAX_SENTENCE: Final = 500  # characters of a sentence of the judge
_MAX_EVIDENCE: Final = 6  # facts stored with one requirement
_COULD_NOT_RUN: Final = (126, 127)  # exit codes of a shell that could not run the command


def judge_requirements(
    items: Sequence[RequirementItem],
    facts: Sequence[Fact],
    evaluation: SatisfactionEvaluation | None,
    findings: Mapping[str, Finding],
    *,
    carried_out: bool = True,
) -> Judgement:
    """Judge the requirements that count (S1-28, C14).

    The score is their mean, weighted 3, 2, 1 by priority. An overall score of the judge under 0.50
    lowers it to that value, unless a check of the user raised a score. The request is done if the
    score is at least 0.80, no requirement of priority 1 or 2 is under 0.50, every check of the user
    ran, and the judge explained each failed test run and failed check.

    ``evaluation`` is None where the user's checks decide everything. ``carried_out``: whether any
    change of the work was carried out. If not, a good score counts as partly met unless the judge
    names a fact for it that is not a refusal by the user.
    """
    by_judge = evaluation.requirement_scores if evaluation is not None else {}
    judged: list[RequirementItem] = []
    overruled, doubted = list[str](), list[str]()
    unchecked, unproven = list[str](), list[str]()
    in_vain = False
    for item in items:
        if not item.is_counted:
            continue
        key, finding = item.requirement_id, findings.get(item.requirement_id)
        level, outcome = by_judge.get(key), finding.outcome if finding is not None else ""
        if item.by_user and outcome in ("met", "refuted"):
            level = 1.0 if outcome == "met" else 0.0
            if key in by_judge and (by_judge[key] >= PARTLY_FROM) is (outcome == "refuted"):
                overruled.append(key)
        elif item.by_user and outcome == "unchecked":
            unchecked.append(key)
        elif outcome == "refuted" and level is not None and level >= DONE_FROM:
            doubted.append(key)
        if level is None:  # neither the judge nor a check scored it
            judged.append(item)
            continue
        evidence = _collect_evidence(key, level, facts, evaluation, finding)
        if level >= DONE_FROM and not any(fact.supports for fact in evidence):
            unproven.append(key)
        state = RequirementState.PARTLY if level >= PARTLY_FROM else RequirementState.REFUTED
        if level >= DONE_FROM:
            if carried_out or any(f.supports or f.kind != "user" for f in evidence):
                state = RequirementState.MET
            else:
                in_vain = True
        fields = {"satisfaction_level": level, "state": state, "evidence": evidence}
        judged.append(item.replace(**fields, provisional=False))
    score = weighted_mean(judged)
    is_raised_by_check = any(
        key in overruled and findings[key].outcome == "met" for key in findings
    )
    whole = evaluation.overall_score if evaluation is not None and not is_raised_by_check else 1.0
    if evaluation is not None and (not judged or whole < PARTLY_FROM):
        score = min(score, evaluation.overall_score) if judged else evaluation.overall_score
    score = round(score, 6)
    unanswered = tuple(
        fact.id
        for fact in facts
        if _is_red(fact, doubted) and not _is_explained(fact.id, evaluation)
    )
    passed_over = {fact.requirement for fact in facts if fact.id in unanswered}
    has_low_requirement = any(i.priority < 3 and i.satisfaction_level < PARTLY_FROM for i in judged)
    done = score >= DONE_FROM and not (has_low_requirement or unchecked or unanswered)
    return Judgement(
        items=tuple(judged),
        score=score,
        done=done and not in_vain,
        overruled=tuple(overruled),
        wrong_checks=tuple(key for key in doubted if key not in passed_over),
        unchecked=tuple(unchecked),
        unproven=tuple(unproven),
        unanswered=unanswered,
        in_vain=done and in_vain,
    )


def withdraw_unshown(
    judgement: Judgement, facts: Sequence[Fact], *, refused: bool
) -> tuple[RequirementItem, ...]:
    """Return the requirements of a request that is not done. One that was scored as met counts as
    partly met where its own check failed and the judge did not say why; with ``refused``, where no
    change was carried out or no file is changed after a refusal, also where no fact but the
    reply shows it. Where all are met and a test run that failed for none of them alone, or the
    overall score, speaks against the work, all count as partly met.
    """
    passed_over = {fact.requirement for fact in facts if fact.id in judgement.unanswered}
    met, counted = count_met(judgement.items)
    whole = met == counted and not (judgement.done or judgement.unchecked or judgement.in_vain)
    items: list[RequirementItem] = []
    for item in judgement.items:
        shown = any(fact.supports and fact.kind != "reply" for fact in item.evidence)
        doubtful = whole or item.requirement_id in passed_over or (refused and not shown)
        if doubtful and item.state is RequirementState.MET:
            item = item.replace(state=RequirementState.PARTLY)
        items.append(item)
    return tuple(items)


def weighted_mean(items: Sequence[RequirementItem]) -> float:
    """Return the mean satisfaction level of the requirements that count, weighted by priority; 0.0
    without any.
    """
    total = levels = 0.0
    for item in items:
        total += WEIGHTS[item.priority]
        levels += WEIGHTS[item.priority] * item.satisfaction_level
    return levels / total if total else 0.0


def read_evaluation(
    reply: SatisfactionReply, items: Sequence[RequirementItem]
) -> SatisfactionEvaluation:
    """Convert the judge's reply, with scores and evidence by the ids of ``items``. A missing
    overall score is the mean of the others; it also replaces the missing score of a single
    requirement. Raises ToldError where there is no score at all.
    """
    scores: dict[str, float] = {}
    evidence: dict[str, tuple[str, ...]] = {}
    for key, score in reply.requirement_scores.items():
        if (item := find_requirement(key, items)) is not None:
            scores.setdefault(item.requirement_id, score)
    for key, references in reply.evidence.items():
        if (item := find_requirement(key, items)) is not None:
            evidence.setdefault(item.requirement_id, clean_sentences(references))
    whole = reply.overall_score
    if whole is not None and len(items) == 1:
        scores.setdefault(items[0].requirement_id, whole)
    if whole is None and scores:
        levels = [
            i.replace(satisfaction_level=scores[i.requirement_id])
            for i in items
            if i.requirement_id in scores
        ]
        whole = weighted_mean(levels)
    if whole is None:
        raise ToldError("judging.no_scores")
    return SatisfactionEvaluation(
        overall_score=whole,
        requirement_scores=scores,
        evidence=evidence,
        missing_aspects=clean_sentences(reply.missing_aspects),
        grade=reply.grade,
        quality_assessment=one_line(reply.quality_assessment, MAX_SENTENCE),
        suggestions=clean_sentences(reply.suggestions),
        verdict=reply.verdict,
        completion_recommendation=reply.completion_recommendation,
        steps=clean_sentences(reply.steps),
    )


def find_open_points(
    items: Sequence[RequirementItem],
    facts: Sequence[Fact],
    evaluation: SatisfactionEvaluation,
    findings: Mapping[str, Finding],
) -> tuple[ModelText, ...]:
    """List points to ask the judge about once more: missing scores, good scores without evidence,
    unexplained failures of tests or checks, an overall score or a verdict that contradicts the
    scores.
    """
    found: list[ModelText] = []
    keys = [item.requirement_id for item in items if item.is_counted]
    if unscored := [key for key in keys if key not in evaluation.requirement_scores]:
        found.append(ModelText("judging.no_score", {"ids": ", ".join(unscored)}))
    judgement = judge_requirements(items, facts, evaluation, findings)
    good = [key for key in keys if evaluation.requirement_scores.get(key, 0.0) >= DONE_FROM]
    if good and not any(map(evaluation.evidence.get, keys)):
        found.append(
            ModelText("judging.no_evidence", {"needed": str(DONE_FROM), "ids": ", ".join(good)})
        )
    parts = weighted_mean(judgement.items)
    if judgement.unanswered and parts >= DONE_FROM:
        found.append(ModelText("judging.not_explained", {"ids": ", ".join(judgement.unanswered)}))
    if evaluation.overall_score < PARTLY_FROM and parts >= DONE_FROM:
        found.append(ModelText("judging.low_whole", {}))
    verdict = "" if evaluation.missing_aspects else evaluation.verdict or ""
    if verdict and parts >= PARTLY_FROM and (verdict == "approve") is not (parts >= DONE_FROM):
        values = {"verdict": verdict, "needed": str(DONE_FROM)}
        found.append(ModelText("judging.verdict", values))
    return tuple(found)


def merge_evaluations(
    first: SatisfactionEvaluation, second: SatisfactionEvaluation, items: Sequence[RequirementItem]
) -> SatisfactionEvaluation:
    """Complete the judge's second answer from the first. A requirement scored in neither gets the
    overall score.
    """
    scores = {**first.requirement_scores, **second.requirement_scores}
    for item in items:
        if item.is_counted:
            scores.setdefault(item.requirement_id, second.overall_score)
    evidence = {**first.evidence, **{k: refs for k, refs in second.evidence.items() if refs}}
    said = second.quality_assessment or first.quality_assessment
    return second.replace(
        requirement_scores=scores,
        evidence=evidence,
        quality_assessment=said,
        suggestions=second.suggestions or first.suggestions,
        grade=second.grade or first.grade,
        verdict=second.verdict or first.verdict,
    )


def list_missing(
    judgement: Judgement,
    facts: Sequence[Fact],
    evaluation: SatisfactionEvaluation | None,
    findings: Mapping[str, Finding],
    words: Callable[..., str],
) -> tuple[MissingItem, ...]:
    """List what is missing, the most important first: from failed checks of the user, from failed
    facts that the judge did not explain, and from the judge. ``words`` returns the app's texts.
    """
    found: list[MissingItem] = []
    for item in judgement.items:
        finding = findings.get(item.requirement_id)
        if item.by_user and finding is not None and finding.outcome == "refuted":
            what = one_line(f"{item.requirement} ({finding.words})", MAX_SENTENCE)
            found.append(MissingItem(what=what, priority=item.priority))
    for fact in facts:
        if fact.id in judgement.unanswered:
            head = fact.title
            if fact.exit_code is not None:
                code = str(fact.exit_code)
                head = words("checks.ended", command=one_line(fact.source, 100), code=code)
            end = one_line(" ".join(fact.text.split("\n")[-3:]), 300)
            found.append(MissingItem(what=one_line(f"{head}: {end}", MAX_SENTENCE)))
    if evaluation is not None:
        found += [MissingItem(what=aspect) for aspect in evaluation.missing_aspects]
    return tuple(sorted(found, key=lambda entry: entry.priority))


def find_strongest_run(facts: Sequence[Fact]) -> Literal["tests", "runs", "nothing"]:
    """The strongest kind of run on the current files: the project's tests, all passed; another
    command or check; or nothing.
    """
    runs = [f for f in facts if f.kind in ("run", "check") and f.exit_code is not None]
    runs = [fact for fact in runs if fact.current]
    if any(fact.suite and fact.ok for fact in runs) and not any(f.is_red_suite for f in runs):
        return "tests"
    return "runs" if runs else "nothing"


def _collect_evidence(
    key: str,
    level: float,
    facts: Sequence[Fact],
    evaluation: SatisfactionEvaluation | None,
    finding: Finding | None,
) -> tuple[Evidence, ...]:
    """Return the evidence of a requirement: of its own check, then of the facts that the judge
    names.
    """
    found: dict[str, Evidence] = {}
    if finding is not None and finding.evidence is not None:
        found["check"] = finding.evidence
    for reference in evaluation.evidence.get(key, ()) if evaluation is not None else ():
        for fact in resolve_reference(reference, facts):
            if fact.requirement == key and "check" in found:
                found["check"] = found["check"].replace(fact=fact.id)
            else:
                supports = level >= PARTLY_FROM and fact.ok is not False
                found.setdefault(fact.id, fact.make_evidence(supports=supports))
    return tuple(found.values())[:_MAX_EVIDENCE]


def _is_red(fact: Fact, doubted: Sequence[str]) -> bool:
    """Whether a fact speaks against the work: a failed run of the project's tests, or a failed
    check of a requirement in ``doubted``, the ids that the judge scores as met.
    """
    ran = fact.exit_code not in _COULD_NOT_RUN
    return fact.requirement in doubted or (fact.is_red_suite and ran)


def _is_explained(fact_id: str, evaluation: SatisfactionEvaluation | None) -> bool:
    """Whether the judge mentions the fact in a sentence; a bare id gives no reason."""
    if evaluation is None:
        return False
    texts = [*evaluation.missing_aspects, *evaluation.suggestions, evaluation.quality_assessment]
    texts += itertools.chain.from_iterable(evaluation.evidence.values())
    return any(
        fact_id in map(str.upper, re.findall(r"\b[RK]\d+\b", text, re.IGNORECASE))
        and len(text.split()) > 1
        for text in texts
    )


def clean_sentences(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the judge's sentences, each on one line, cut to ``MAX_SENTENCE`` characters, without
    empty ones.
    """
    return tuple(one_line(text, MAX_SENTENCE) for text in texts if text.strip())
