"""From checks and the evaluator's scores to a verdict; evidence goes before words (C14, C15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duckflow_tui.prompting.lines import changed_lines
from duckflow_tui.state.base import one_line
from duckflow_tui.state.goal import (
    DONE_FROM,
    VETO_BELOW,
    Evidence,
    MissingInfoAnalysis,
    MissingItem,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
)

if TYPE_CHECKING:
    from duckflow_tui.goals.checks import Finding
    from duckflow_tui.state.calls import OperationMessage

WEIGHTS: Final = {1: 3, 2: 2, 3: 1}  # of a requirement in the mean, by its priority

UNSEEN: Final = 0.5  # of a requirement that nothing shows, or whose check could not run, at most

_DIFFS: Final = 2  # changed files that are kept as evidence of a requirement

_DIFF_LINES: Final = 8  # of each

_WORDS: Final = 300  # characters of a sentence of the evaluator


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far the objective is met; ``vetoes`` name requirements whose check overruled the
    evaluator, in either direction. ``unproven``: it would be done if the evaluator's word were
    enough where a check could not be run.
    """

    score: float
    done: bool
    vetoes: tuple[str, ...] = ()
    mismatch: bool = False
    unproven: bool = False


def judged(
    item: RequirementItem,
    finding: Finding | None,
    evaluation: SatisfactionEvaluation | None,
    log: Sequence[OperationMessage],
    at: float,
) -> RequirementItem:
    """The requirement with level, state and evidence.

    A check that ran decides alone. Without one the evaluator's score does; where the evaluator
    names nothing that shows it, or a check could not be run, the requirement is at most partly
    met, and half of it counts: nobody saw what was to be seen.
    """
    score = 0.0 if evaluation is None else _score(evaluation, item)
    evidence: list[Evidence] = []
    if finding is not None and finding.evidence is not None:
        evidence.append(finding.evidence)
    if finding is None or finding.verdict == "unchecked":
        named = () if evaluation is None else evaluation.evidence.get(item.requirement_id, ())
        said = [text for text in named if text.strip()]
        level = score if finding is None and said else min(score, UNSEEN)
        state = RequirementState.REFUTED
        if level >= VETO_BELOW:
            state = RequirementState.PARTLY
        if level >= DONE_FROM:
            state = RequirementState.MET
        evidence.extend(
            Evidence(
                kind="judgement",
                text=one_line(text, _WORDS),
                source="evaluator",
                supports=score >= VETO_BELOW,
                at=at,
            )
            for text in said
        )
    elif finding.verdict == "met":
        level, state = 1.0, RequirementState.MET
    else:
        level, state = 0.0, RequirementState.REFUTED
    if level > 0:
        evidence.extend(_diffs(evidence, log))
    return item.model_copy(
        update={"satisfaction_level": level, "state": state, "evidence": tuple(evidence)}
    )


def verdict(
    items: Sequence[RequirementItem],
    findings: Mapping[str, Finding],
    evaluation: SatisfactionEvaluation | None,
) -> Verdict:
    """Done from 0.80 on, unless a requirement of priority 1 is under 0.50 (S1-28, C14), or the
    evaluator rejects the result.

    Without an evaluation the score is the mean of the levels, weighted 3, 2, 1 by priority. With
    one it is the lower of the evaluator's and that mean, because no word on the whole stands over
    what was said of its parts; but where the evaluator scored a requirement low that a check shows
    to be met, and no check refutes one, it is the mean.
    """
    if evaluation is None:
        score, done = _done(items, None)
        return Verdict(score, done)
    scores = evaluation.requirement_scores
    praised = evaluation.overall_score >= DONE_FROM
    refuted = _with(findings, "refuted")
    raised = [key for key in _with(findings, "met") if scores.get(key, 1.0) < VETO_BELOW]
    vetoes = [key for key in refuted if praised or scores.get(key, 0.0) >= VETO_BELOW]
    heard = None if raised and not refuted else evaluation
    score, done = _done(items, heard)
    believed = [_believed(item, evaluation, findings) for item in items]
    unproven = not done and _done(believed, heard)[1]
    mismatch = evaluation.completion_recommendation is not (done or unproven)
    return Verdict(score, done, (*vetoes, *raised), mismatch, unproven)


def _done(
    items: Sequence[RequirementItem], evaluation: SatisfactionEvaluation | None
) -> tuple[float, bool]:
    score, rejected = weighted(items), False
    if evaluation is not None:
        overall = evaluation.overall_score
        score = min(overall, score) if items else overall
        rejected = evaluation.verdict == "reject"
    score = round(score, 6)
    blocked = any(r.priority == 1 and r.satisfaction_level < VETO_BELOW for r in items)
    return score, score >= DONE_FROM and not (blocked or rejected)


def _believed(
    item: RequirementItem, evaluation: SatisfactionEvaluation, findings: Mapping[str, Finding]
) -> RequirementItem:
    """The requirement at the evaluator's score where its check could not be run."""
    finding = findings.get(item.requirement_id)
    if finding is None or finding.verdict != "unchecked":
        return item
    return item.model_copy(update={"satisfaction_level": _score(evaluation, item)})


def weighted(items: Sequence[RequirementItem]) -> float:
    """The mean level by priority; 0.0 of nothing."""
    total = sum(WEIGHTS[item.priority] for item in items)
    if not total:
        return 0.0
    return sum(WEIGHTS[item.priority] * item.satisfaction_level for item in items) / total


def lacking(
    items: Sequence[RequirementItem],
    findings: Mapping[str, Finding],
    evaluation: SatisfactionEvaluation | None,
) -> MissingInfoAnalysis:
    """What is missing as far as checks and scores say it, the most important first."""
    found: list[MissingItem] = []
    for item in items:
        if item.state is RequirementState.MET:
            continue
        finding = findings.get(item.requirement_id)
        why = "" if finding is None else f" ({finding.words})"
        if finding is None and item.satisfaction_level > 0 and not item.evidence:
            why = " (no result was named that shows it)"
        words = one_line(f"{item.requirement}{why}", 2 * _WORDS)
        found.append(MissingItem(what=words, priority=item.priority))
    if evaluation is not None and not found:
        found = [MissingItem(what=aspect) for aspect in evaluation.missing_aspects]
    return MissingInfoAnalysis(missing=tuple(sorted(found, key=lambda m: m.priority)))


def _score(evaluation: SatisfactionEvaluation, item: RequirementItem) -> float:
    return evaluation.requirement_scores.get(item.requirement_id, 0.0)


def _with(findings: Mapping[str, Finding], wanted: str) -> list[str]:
    return [key for key, finding in findings.items() if finding.verdict == wanted]


def _diffs(evidence: Sequence[Evidence], log: Sequence[OperationMessage]) -> list[Evidence]:
    """The changes of files that the evidence names, newest first."""
    named = "\n".join(f"{fact.source}\n{fact.text}" for fact in evidence)
    found: list[Evidence] = []
    for message in reversed(log):
        for path, lines in changed_lines(message):
            if len(found) < _DIFFS and path in named and all(f.source != path for f in found):
                found.append(
                    Evidence(
                        kind="diff",
                        text="\n".join(lines[:_DIFF_LINES]),
                        source=path,
                        call_id=message.call_id,
                        at=message.at,
                    )
                )
    return found
