"""From checks, scores and changes to one judgement of a request. Evidence goes before words (C14,
C15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duckflow_tui.state.base import one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import (
    DONE_FROM,
    TEST_SUITE,
    VETO_BELOW,
    Evidence,
    MissingInfoAnalysis,
    MissingItem,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
)
from duckflow_tui.tools.operation import RUN

if TYPE_CHECKING:
    from duckflow_tui.goals.checks import Finding


WEIGHTS: Final = {1: 3, 2: 2, 3: 1}  # of a requirement in the mean, by its priority

UNSEEN: Final = 0.5  # of a requirement that nothing shows, or whose check could not run, at most

CLAIMED: Final = 0.49  # of one of which nothing was done, at most: under ``VETO_BELOW``

_DIFFS: Final = 2  # changed files that are kept as evidence of a requirement

_DIFF_LINES: Final = 8  # of each

_WORDS: Final = 300  # characters of a sentence of the evaluator

_ENOUGH: Final = 0.75  # of the words of a quote, in another order

_SHORT: Final = 8  # bytes of a quote without white space that is found anywhere

_MARKS: Final = "\"'`“”‘’「」"

_WORD: Final = re.compile(r"[\w./-]*\w")

_GAP: Final = re.compile(r"…|\.\.\.|\n")

_MARKED: Final = re.compile(r"[\"“`「]([^\"”`」]{3,})[\"”`」]")

#: What is piped or chained can end with 0 though it failed, so the output of a test suite has to
#: say that it passed.
_PASSED: Final = re.compile(r"\b[1-9]\d* pass(?:ed|ing)\b|^OK\b|test result: ok|^ok\b|^PASS", re.M)
_FAILED: Final = re.compile(r"\b[1-9]\d* (?:failed|failing|errors?)\b|^FAIL", re.M | re.I)

_LACKING: Final = 600  # characters of a requirement that is not met, with what was found


@dataclass(frozen=True, slots=True)
class Satisfaction:
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
    shown: str = "",
    suites: str = "",
    changes: str = "",
    claimed: bool = False,
    places: Mapping[str, str] | None = None,
) -> RequirementItem:
    """The requirement with level, state and evidence. ``shown`` is all that a quote may come
    from, ``suites`` what test suites printed that passed, both ``squeezed``; ``changes`` what
    became of the files; ``claimed``: nothing was done of what was asked for; ``places``: what
    stands in each place that a short quote may name.

    A check that ran decides alone. Without one the evaluator's score does: whole where a quote
    of it was found or none was named, half where none of its quotes is anywhere, and less than
    half where the work is only claimed. Where a check could not be run, it is at most partly met,
    unless a suite that passed is quoted for it.
    """
    key, score, named = item.requirement_id, None, tuple[str, ...]()
    if evaluation is not None:
        score = evaluation.requirement_scores.get(key)
        named = evaluation.evidence.get(key, ())
    if finding is None and score is None:
        return item  # nobody said anything of it
    score, evidence = score or 0.0, list[Evidence]()
    if finding is not None and finding.evidence is not None:
        evidence.append(finding.evidence)
    if finding is not None and finding.outcome != "unchecked":
        level = 1.0 if finding.outcome == "met" else 0.0
    else:
        level, quoted, seen, covered = score, False, False, False
        for text in filter(str.strip, named):
            found = is_quoted(text, shown, places)
            quoted, seen = True, seen or found
            covered = covered or is_quoted(text, suites, places)
            evidence.append(
                Evidence(
                    kind="judgement",
                    text=one_line(text, _WORDS),
                    source="evaluator",
                    supports=found and score >= VETO_BELOW,
                    at=at,
                    found=found,
                )
            )
        if quoted and not seen:
            level = score * UNSEEN
        if claimed:
            level = min(score * UNSEEN, CLAIMED)
        if finding is not None and not covered:
            level = min(level, UNSEEN)
    state = RequirementState.PARTLY if level >= VETO_BELOW else RequirementState.REFUTED
    if level >= DONE_FROM:
        state = RequirementState.MET
    if level > 0:
        evidence.extend(_diffs(item, evidence, log, changes))
    return item.model_copy(
        update={"satisfaction_level": level, "state": state, "evidence": tuple(evidence)}
    )


def squeezed(text: str) -> str:
    """The text without white space and capitals, by which quotes are compared."""
    return "".join(text.split()).casefold()


def is_quoted(quote: str, shown: str, places: Mapping[str, str] | None = None) -> bool:
    """Whether what the evaluator names is somewhere in the ``squeezed`` text.

    The place before a colon may be left out, and so may what stands outside quotation marks or
    on the other side of an ellipsis. Words in another order count where three of four are there,
    and every number among them. What is shorter than ``_SHORT`` would be found anywhere: it has
    to stand as whole words in the place it names, a key of ``places``; where it names none, one
    word has to be a whole line of any place.
    """
    named, _, behind = quote.partition(":" if ":" in quote else "：")
    short = ""
    for text in (quote, behind):
        pieces = _GAP.split("…".join(_MARKED.findall(text)) or text)
        longest = ""
        for piece in pieces:
            words = squeezed(piece).strip(_MARKS)
            if words and words not in shown:
                break
            longest = max(longest, piece.strip().strip(_MARKS), key=len)
        else:
            short = longest or short
            if len(squeezed(longest).encode()) >= _SHORT:
                return True
    if short:
        bound = "(?<![A-Za-z0-9_]){}(?![A-Za-z0-9_])".format
        words = r"\s*".join(map(re.escape, short.split()))
        several = len(_WORD.findall(short)) > 1
        for place, text in (places or {}).items():
            if behind.strip() and not re.search(bound(re.escape(place)), named, re.I):
                continue
            look = bound(words) if behind.strip() or several else rf"^[-+ \t]*{words}[ \t]*$"
            if re.search(look, text, re.I | re.M):
                return True
        return False
    there = count = 0
    for word in _WORD.findall((behind.strip() or quote).casefold()):
        if word in shown and (len(word) > 3 or word.isdecimal()):
            there += 1
        elif word.isdecimal():
            return False
        count += len(word) > 3 or word.isdecimal()
    return count > 1 and there >= _ENOUGH * count


def passed_suites(log: Sequence[OperationMessage]) -> str:
    """What test suites printed that passed, and after which no call changed a file."""
    found: list[str] = []
    for message in reversed(log):
        if message.result.changes:
            break
        line, result = str(message.args.get("command", "")), message.result
        if message.operation != RUN or result.exit_code != 0 or not TEST_SUITE.search(line):
            continue
        if _PASSED.search(result.text) and not _FAILED.search(result.text):
            found.append(result.text)
    return squeezed("\n".join(found))


def overall(
    items: Sequence[RequirementItem],
    findings: Mapping[str, Finding],
    evaluation: SatisfactionEvaluation | None,
) -> Satisfaction:
    """Done from 0.80 on, unless a requirement of priority 1 or 2 is under 0.50 (S1-28, C14).
    One of priority 3 is a wish that may stay open.

    The score is the mean of the levels, weighted 3, 2, 1 by priority. The request as a whole is
    the first of all requirements: under 0.50 by the evaluator it is not done, and that is the
    score, unless a check of the user's own shows met what the evaluator scored so low, and none
    refutes anything.
    Without requirements the evaluator's word on the whole is the score.
    """
    if evaluation is None:
        return Satisfaction(*_score(items, 1.0))
    scores, praised = evaluation.requirement_scores, evaluation.overall_score >= DONE_FROM
    refuted, vetoes, raised = False, list[str](), list[str]()
    for key, finding in findings.items():
        if finding.outcome == "refuted":
            refuted = True
            if praised or scores.get(key, 0.0) >= VETO_BELOW:
                vetoes.append(key)
        elif finding.outcome == "met" and scores.get(key, 1.0) < VETO_BELOW:
            raised.append(key)
    own = {item.requirement_id for item in items if item.by_user}
    whole = 1.0 if own.intersection(raised) and not refuted else evaluation.overall_score
    score, done = _score(items, whole)
    believed: list[RequirementItem] = []  # at the evaluator's score where a check could not be run
    for item in items:
        key = item.requirement_id
        if key in findings and findings[key].outcome == "unchecked":
            item = item.model_copy(update={"satisfaction_level": scores.get(key, 0.0)})
        believed.append(item)
    unproven = not done and _score(believed, whole)[1]
    mismatch = evaluation.completion_recommendation is not (done or unproven)
    return Satisfaction(score, done, (*vetoes, *raised), mismatch, unproven)


def _score(items: Sequence[RequirementItem], whole: float) -> tuple[float, bool]:
    """The score, and whether that is done; ``whole`` is the evaluator's word on the request."""
    score = weighted(items) if items else whole
    if whole < VETO_BELOW:
        score = min(score, whole)
    score = round(score, 6)
    done = score >= DONE_FROM
    for item in items:
        done = done and (item.priority == 3 or item.satisfaction_level >= VETO_BELOW)
    return score, done


def weighted(items: Sequence[RequirementItem]) -> float:
    """The mean level by priority; 0.0 of nothing."""
    total = levels = 0.0
    for item in items:
        total += WEIGHTS[item.priority]
        levels += WEIGHTS[item.priority] * item.satisfaction_level
    return levels / total if total else 0.0


def _diffs(
    item: RequirementItem,
    evidence: Sequence[Evidence],
    log: Sequence[OperationMessage],
    changes: str,
) -> list[Evidence]:
    """Of the changes the lines that the evidence quotes, with those around them."""
    quoted = squeezed(item.check.value) if item.check.kind == "file_contains" else ""
    for fact in evidence:
        if fact.found:
            quoted += "\n" + squeezed(fact.text)
    found: dict[str, Evidence] = {}
    path, begins, lines = "", 0, changes.split("\n")
    for number, line in enumerate(lines):
        if line.startswith("@@ "):
            path, begins = line.split(" ")[1], number + 1
        new = squeezed(line[1:])
        if path in found or line[:1] not in ("+", "-") or len(new) < 3 or new not in quoted:
            continue
        if not path or len(found) == _DIFFS:
            continue
        first = max(begins, number - _DIFF_LINES // 2)
        excerpt = "\n".join(lines[first : first + _DIFF_LINES]).partition("\n@@ ")[0]
        found[path] = Evidence(kind="diff", text=excerpt, source=path)
        for message in log:
            for change in message.result.changes:
                if path in (change.path, change.target):
                    where = {"call_id": message.call_id, "at": message.at}
                    found[path] = found[path].model_copy(update=where)
    return list(found.values())


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
        struck = [fact.text for fact in item.evidence if fact.found is False]
        if struck:
            why += f" (found nowhere: {struck[0]})"
        words = one_line(f"{item.requirement}{why}", _LACKING)
        found.append(MissingItem(what=words, priority=item.priority))
    if evaluation is not None and not found:
        found = [MissingItem(what=aspect) for aspect in evaluation.missing_aspects]
    return MissingInfoAnalysis(missing=tuple(sorted(found, key=lambda m: m.priority)))
