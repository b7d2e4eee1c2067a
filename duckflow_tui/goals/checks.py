"""What shows that a requirement is met: its check, the evaluator's word, and what both say of the
whole. Evidence goes before words (C14, C15).

A check needs no judgement: a command, a file, a text in a file. It comes before the evaluator and
overrules it. A command goes the way of every call, through the policy and its gate; a file is
looked at where it lies and only inside the workspace.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeGuard

from duckflow_tui.safety.command_risk import assess_command
from duckflow_tui.safety.commands import read_command
from duckflow_tui.safety.paths import FileKind, Place, WorkspaceError
from duckflow_tui.state.base import IdSource, brief, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, NoticeMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.goal import (
    DONE_FROM,
    TEST_SUITE,
    VETO_BELOW,
    Evidence,
    RequirementItem,
    RequirementState,
    SatisfactionEvaluation,
)
from duckflow_tui.state.operations import SIDE_EFFECTS, Outcome, Risk, Zone
from duckflow_tui.tools.listing import walk
from duckflow_tui.tools.operation import RUN

if TYPE_CHECKING:
    from duckflow_tui.state.store import Store
    from duckflow_tui.tools.router import ToolRouter

MAX_FILE: Final = 4 * 1024 * 1024  # bytes of a file that is searched

_EXCERPT: Final = 600  # characters, the last lines of an output

_EXCERPT_LINES: Final = 8

_NOT_THERE: Final = (126, 127)  # exit codes of a shell that found nothing to run

#: Commands that end with 0 whatever the work is.
_NEVER_FAIL: Final = frozenset({"true", ":", "echo", "printf", "pwd", "date", "sleep"})

_WRITERS: Final = frozenset({"touch", "tee", "cp", "mv", "ln", "mkdir", "rm", "install", "dd"})

_IN_PLACE: Final = re.compile(r"-[a-zA-Z]*i|--in-place")

#: What a build or a run of tests leaves behind.
_LEFT_BEHIND: Final = re.compile(
    r"(?:^|/)(?:build|dist|target|out|coverage|htmlcov|[^/]*\.egg-info)/"
    r"|(?:^|/)\.coverage[^/]*$|\.(?:pyc|o|obj|class|log|tmp)$"
)

_RAN: Final = (Outcome.OK, Outcome.ERROR, Outcome.STOPPED)

#: How notices begin that tell of a file changed by someone else, or of a change undone or redone.
_CHANGED: Final = ("files.", "operations.undo.", "operations.redo.")


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


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check showed; ``words`` tell it to a model. Of one that could not be run there is no
    evidence.
    """

    outcome: Literal["met", "refuted", "unchecked"]
    words: str
    evidence: Evidence | None = None


class RequirementChecks:
    def __init__(self, store: Store, ids: IdSource, router: ToolRouter) -> None:
        self._store = store
        self._ids = ids
        self._router = router
        self._workspace = router.workspace

    async def look(self, item: RequirementItem) -> Finding | None:
        """What the requirement's check shows now; None for one that is left to judgement, and so
        is one whose check shows nothing of the work: a command that cannot fail, or that changes
        files itself, a file that was so before the request.
        """
        match item.check.kind:
            case "command" if can_fail(item.check.value):
                return await self._command(item)
            case "file_exists" | "file_contains":
                return await self._file(item)
            case _:
                return None

    # --- commands ----------------------------------------------------------------------------

    async def _command(self, item: RequirementItem) -> Finding | None:
        command = item.check.value.strip()
        if not command:
            return Finding("unchecked", "the check names no command")
        message = await self._known(command)
        if message is None:
            before = await self._stamps()
            words = one_line(item.requirement, 200)
            message = await self._router.call(
                Action(
                    call_id=self._ids("call"),
                    operation=RUN,
                    args={"command": command},
                    reasoning=words,
                    intent=words,
                ),
                for_requirement=item.requirement_id,
            )
            if message.result.exit_code == 0 and await self._stamps() != before:
                return None  # it made what it looks for, or may have
        return _of_command(command, message)

    async def _known(self, command: str) -> OperationMessage | None:
        """The newest run of the same command that still says how things are: nothing that may
        have changed a file came after it. What the user refused is not asked again until then.
        """
        state = self._store.state
        if state.changed_outside:
            return None
        for message in reversed(state.messages):
            if _is_run(message, command) and message.result.outcome not in (
                Outcome.INVALID,
                Outcome.SKIPPED,
                Outcome.STOPPED,
            ):
                return None if await self._is_older_than_files(message) else message
            if self.may_have_changed(message):
                return None
        return None

    def may_have_changed(self, message: Message) -> bool:
        """Whether a file may be another one since: by a call that did its work, or else how."""
        if isinstance(message, NoticeMessage):
            return message.key.startswith(_CHANGED)
        if not isinstance(message, OperationMessage) or message.for_requirement:
            return False
        if message.result.changes:
            return True
        operation = self._router.registry.get(message.operation)
        harmless = operation is not None and operation.effect not in SIDE_EFFECTS
        if harmless or message.result.outcome not in _RAN:
            return False
        if message.operation == RUN:
            line = read_command(str(message.args.get("command", "")))
            root = self._workspace.root
            return assess_command(line, root, root).risk is not Risk.LOW
        return message.operation.startswith("mcp.")  # of a file, ``changes`` tells

    async def _stamps(self) -> dict[str, tuple[int, int]]:
        """Each file of the workspace with the time of its last change, in ns, and its size; what
        is ignored, or what builds and tests leave, is none of them.
        """
        listing = await walk(self._workspace, self._workspace.locate("."), depth=None)
        found: dict[str, tuple[int, int]] = {}
        for entry in listing.entries:
            if entry.kind is FileKind.FILE and not _LEFT_BEHIND.search(entry.path):
                with contextlib.suppress(OSError):
                    stat = os.stat(self._workspace.root / entry.path)
                    found[entry.path] = (stat.st_mtime_ns, stat.st_size)
        return found

    async def _is_older_than_files(self, message: OperationMessage) -> bool:
        """Whether a file of the workspace, or one that was read or written in this session,
        changed since the run began, whoever did it: the watcher may not have seen it yet, and the
        run itself may have.
        """
        begun = message.at - message.result.duration_s
        for changed_at, _ in (await self._stamps()).values():
            if changed_at > begun * 1e9:
                return True
        for path in self._store.state.files_read:
            try:
                place = self._workspace.locate(path)
                changed = os.stat(place.real).st_mtime > begun if place.exists else True
            except (WorkspaceError, OSError):
                changed = True
            if changed:
                return True
        return False

    # --- files -------------------------------------------------------------------------------

    async def _file(self, item: RequirementItem) -> Finding | None:
        path, text = item.check.value.strip(), ""
        if item.check.kind == "file_contains":
            path, _, text = (part.strip() for part in item.check.value.partition(":"))
            if not text:
                return Finding("unchecked", "the check names no text to look for")
        try:
            place = self._workspace.locate(path)
            if place.zone is not Zone.INSIDE or place.leads_out or place.secret:
                return Finding("unchecked", f"a check may not look at {place.said}")
            if not place.exists:
                return self._shown("refuted", place, f"there is no {place.said}")
            if await self._was_so(place, text):
                return None
            if item.check.kind == "file_exists":
                size = "" if place.is_dir else f"{place.size:,} B"
                return self._shown("met", place, f"{place.said} is there {size}".strip(), size)
            return await self._contains(place, text)
        except WorkspaceError as error:
            return Finding("unchecked", str(error))

    async def _was_so(self, place: Place, text: str) -> bool:
        """Whether the file was there, and held the text, before the request was made: by what it
        was before the first change since, or by its time where no call changed it.
        """
        objective = self._store.state.objective
        since = objective.created_at if objective is not None else 0.0
        for message in self._store.state.messages:
            if not isinstance(message, OperationMessage) or message.at < since:
                continue
            for change in message.result.changes:
                if place.shown not in (change.path, change.target):
                    continue
                if place.shown != change.path or not change.before:
                    return False
                try:
                    old = await self._router.blobs.get(change.before)
                except (OSError, KeyError):
                    return False
                return text in old.decode("utf-8", "replace")
        if os.stat(place.real).st_mtime >= since:
            return False
        return not text or (await self._contains(place, text)).outcome == "met"

    async def _contains(self, place: Place, text: str) -> Finding:
        if place.is_dir:
            return self._shown("refuted", place, f"{place.said} is a folder")
        if place.size > MAX_FILE:
            return Finding("unchecked", f"{place.said} is too large to be searched")
        content = (await self._workspace.read_bytes(place)).decode("utf-8", "replace")
        at = content.find(text)
        if at < 0:
            return self._shown("refuted", place, f"{place.said} does not hold {brief(text, 100)}")
        number = content.count("\n", 0, at) + 1
        line = f"{number}: {content.splitlines()[number - 1].strip()[:_EXCERPT]}"
        return self._shown("met", place, f"{place.said} has in line {line}", line)

    def _shown(
        self, outcome: Literal["met", "refuted"], place: Place, words: str, excerpt: str = ""
    ) -> Finding:
        """What the file shows, with the evidence."""
        supports, now = outcome == "met", self._store.clock.now()
        source = place.shown
        evidence = Evidence(kind="file", text=excerpt, source=source, supports=supports, at=now)
        return Finding(outcome, words, evidence)


def can_fail(command: str) -> bool:
    """Whether a command line can end with another exit code than 0. Of ``tests; true`` or
    ``tests || echo bad`` the end hides how the tests ended; what cannot be read may fail. One that
    writes files makes true what it looks for: it says nothing of the work either.
    """
    can, line = True, read_command(command)
    if any(target != "/dev/null" for target in line.targets):
        return False
    for part in line.parts:
        if part.argv[0] in _WRITERS or (
            part.argv[0] in ("sed", "perl") and any(map(_IN_PLACE.match, part.argv[1:]))
        ):
            return False
        real = part.argv[0] not in _NEVER_FAIL and part.argv not in (("exit",), ("exit", "0"))
        match part.joiner:
            case "&&" | "|":
                can = can or real
            case "||":
                can = can and real
            case _:
                can = real
    return can


def _is_run(message: Message, command: str) -> TypeGuard[OperationMessage]:
    """Whether it is a run of exactly this command in the workspace's own folder."""
    if not isinstance(message, OperationMessage) or message.operation != RUN:
        return False
    args = message.args
    return (
        str(args.get("command", "")).strip() == command
        and str(args.get("cwd") or ".") == "."
        and not args.get("background")
    )


def _of_command(command: str, message: OperationMessage) -> Finding:
    result = message.result
    code = result.exit_code
    if result.outcome is not Outcome.OK or code is None:
        why = one_line(result.text, 200)
        return Finding("unchecked", f"`{command}` did not run: {result.outcome.value}: {why}")
    # The end of the output, without the line that tells how the command ended.
    lines = [line.rstrip() for line in result.text.splitlines()[1:] if line.strip()]
    evidence = Evidence(
        kind="command",
        text="\n".join(lines[-_EXCERPT_LINES:])[-_EXCERPT:],
        source=command,
        supports=code == 0,
        exit_code=code,
        call_id=message.call_id,
        at=message.at,
    )
    words = f"`{command}` ended with exit code {code}: {evidence.text}".rstrip(": ")
    if code in _NOT_THERE:
        return Finding("unchecked", words, evidence)
    return Finding("met" if code == 0 else "refuted", words, evidence)


# --- from checks and scores to one judgement -----------------------------------------------------


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
