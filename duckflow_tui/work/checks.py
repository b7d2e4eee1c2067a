"""Runs the checks of requirements: commands, files, and texts in files (C15).

A check that the user wrote decides about its requirement; one that the model wrote is a fact for
the evaluator. Commands go through the policy and its approval like every call. Files are only read
inside the workspace.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeGuard

from duckflow_tui.safety.command_parsing import read_command
from duckflow_tui.safety.paths import Place, WorkspaceError
from duckflow_tui.state.base import IdSource, clip_value, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message, NoticeMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.goal import (
    Evidence,
    ObjectiveChanged,
    RequirementItem,
    RequirementState,
    RequirementTicked,
)
from duckflow_tui.state.lines import line_at, split_lines
from duckflow_tui.state.operations import SIDE_EFFECTS, Outcome, Zone
from duckflow_tui.state.store import Store
from duckflow_tui.tools.operation import RUN
from duckflow_tui.tools.router import ToolRouter
from duckflow_tui.work.judgement import weighted_mean

MAX_FILE: Final = 4 * 1024 * 1024  # bytes of a file that is searched
_EXCERPT: Final = 600  # characters, the last lines of an output
_EXCERPT_LINES: Final = 8
_NOT_THERE: Final = (126, 127)  # exit codes of a shell that found nothing to run

#: Ways to start the same program.
_RUNNERS: Final = (
    ("uv", "run"),
    ("poetry", "run"),
    ("npx",),
    ("python", "-m"),
    ("python3", "-m"),
)
_HOW_LOUD: Final = frozenset({"-q", "-v", "-vv", "-qq", "--quiet", "--verbose"})

#: How notices begin that tell of a file changed by someone else, or of a change undone or redone.
_CHANGED: Final = ("files.", "operations.undo.", "operations.redo.")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. ``words`` describe it to a model. A check that could not run is
    ``unchecked``.
    """

    outcome: Literal["met", "refuted", "unchecked"]
    words: str
    evidence: Evidence | None = None


class RequirementChecks:
    """Runs and re-evaluates the checks of requirements."""

    def __init__(
        self, store: Store, ids: IdSource, router: ToolRouter, words: Callable[..., str]
    ) -> None:
        """``words`` looks up texts for models by their name."""
        self._store = store
        self._ids = ids
        self._router = router
        self._workspace = router.workspace
        self._words = words

    async def check_requirement(self, item: RequirementItem) -> Finding | None:
        """Run the requirement's check now. None if it has no check, or if its file already
        fulfilled the check before the request, which proves nothing about the work.
        """
        match item.check.kind:
            case "command":
                return await self._check_command(item)
            case "file_exists" | "file_contains":
                return await self._check_file(item)
            case _:
                return None

    async def look_again(self) -> None:
        """Repeat the file checks after changes were undone or redone, if the request was reopened
        by that, and update its requirements. If all are met and no change is undone any more,
        the request is marked as done again.
        """
        state = self._store.state
        items = state.objective.extracted_requirements if state.objective is not None else ()
        seen: list[tuple[RequirementItem, Finding]] = []
        for item in items:
            if item.is_counted and item.check.kind in ("file_exists", "file_contains"):
                finding = await self.check_requirement(item)
                if finding is not None and finding.outcome != "unchecked":
                    seen.append((item, finding))
        if (now := state.objective) is None or not now.reopened:
            return
        for item, finding in seen:
            if now.get_requirement(item.requirement_id) == item:  # unchanged since
                now = now.with_requirement(_as_found(item, finding))
        calls = {
            m.call_id for m in state.messages if m.kind == "operation" and m.at >= now.created_at
        }
        met, counted = now.met_counts
        if met == counted and calls.isdisjoint(state.undone_calls):
            score = weighted_mean(now.extracted_requirements)
            now = now.replace(reopened=False, current_satisfaction=score)
        if now != state.objective:
            self._store.dispatch(ObjectiveChanged(objective=now))

    async def tick_requirements(self, ran: Sequence[OperationMessage]) -> None:
        """Provisionally mark unjudged requirements as met, or unmark them, by the calls in ``ran``.
        A state that already held before the work does not count.
        """
        objective = self._store.state.objective
        if objective is None or not ran:
            return
        for item in objective.extracted_requirements:
            if item.is_counted and (item.provisional or not item.state.is_judged):
                finding = await self.look_at_work(item, ran)
                if finding is not None and (finding.outcome == "met") is not item.provisional:
                    met = finding.outcome == "met"
                    evidence = (finding.evidence,) if met and finding.evidence else ()
                    self._store.dispatch(
                        RequirementTicked(
                            requirement_id=item.requirement_id, met=met, evidence=evidence
                        )
                    )

    async def look_at_work(
        self, item: RequirementItem, ran: Sequence[OperationMessage]
    ) -> Finding | None:
        """Return what the calls in ``ran`` show about the requirement: the result of its own
        command, run after a change of files, or the file as it is now. None if they show nothing
        new. Runs no command.
        """
        objective = self._store.state.objective
        assert objective is not None  # callers have checked
        if item.check.kind == "command":
            changed = False
            for message in self._store.state.messages:
                if isinstance(message, OperationMessage) and message.at >= objective.created_at:
                    changed = changed or bool(message.result.changes)
                    if changed and message in ran and _is_run(message, item.check.value):
                        return self._read_run(item.check.value.strip(), message)
            return None
        if item.check.kind in ("file_exists", "file_contains"):
            return await self._check_file(item) if any(m.result.changes for m in ran) else None
        return None

    # --- commands ----------------------------------------------------------------------------

    async def _check_command(self, item: RequirementItem) -> Finding:
        """Return the finding of the requirement's command; runs it unless a result still holds."""
        command = item.check.value.strip()
        if not command:
            return Finding("unchecked", self._words("checks.no_command"))
        message = await self._find_run(command)
        if message is None:
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
        return self._read_run(command, message)

    async def _find_run(self, command: str) -> OperationMessage | None:
        """Return the newest run of this command whose result still holds, because no file can have
        changed since; else None. A refused run counts, so that the user is not asked again.
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
                old = message.at < state.read_other_at or await self._is_older_than_files()
                return None if old else message
            if self.may_have_changed(message):
                return None
        return None

    def may_have_changed(self, message: Message) -> bool:
        """Whether a message of the conversation records a change of files that may invalidate
        earlier results: a call with effects, or a notice of an outside change, undo or redo.
        """
        if isinstance(message, NoticeMessage):
            return message.key.startswith(_CHANGED)
        if not isinstance(message, OperationMessage) or message.for_requirement:
            return False
        if message.result.changes:
            return True
        operation = self._router.registry.get(message.operation)
        harmless = operation is not None and operation.effect not in SIDE_EFFECTS
        if harmless or not message.result.outcome.may_have_effects:
            return False
        if message.operation == RUN:
            return bool(message.result.touched) or not message.result.covered
        return message.operation.startswith("mcp.")  # ``changes`` covers our own file operations

    async def _is_older_than_files(self) -> bool:
        """Whether a file that this session read or wrote now has other content on disk."""
        for path, sha in self._store.state.files_read.items():
            try:
                place = self._workspace.locate_path(path)
                if place.zone is Zone.INSIDE and place.size <= MAX_FILE:
                    data = await self._workspace.read_bytes(place)
                    if hashlib.sha256(data).hexdigest() != sha:
                        return True
            except (WorkspaceError, OSError):
                return True
        return False

    def _read_run(self, command: str, message: OperationMessage) -> Finding:
        """Turn the result of a command into a finding: exit code 0 is met."""
        result = message.result
        code = result.exit_code
        if result.outcome is not Outcome.OK or code is None:
            values = {"outcome": result.outcome.value, "why": one_line(result.text, 200)}
            words = self._words("checks.did_not_run", command=command, **values)
            return Finding("unchecked", words)
        # The end of the output, without the line that tells how the command ended.
        lines = [line.rstrip() for line in split_lines(result.text)[1:] if line.strip()]
        evidence = Evidence(
            kind="command",
            text="\n".join(lines[-_EXCERPT_LINES:])[-_EXCERPT:],
            source=command,
            supports=code == 0,
            exit_code=code,
            call_id=message.call_id,
            at=message.at,
        )
        words = self._words("checks.ended", command=command, code=str(code))
        if paths := [change.target or change.path for change in result.undoable_changes]:
            words = f"{words}, {self._words('checks.wrote', paths=one_line(', '.join(paths), 200))}"
        words = f"{words}: {evidence.text}".rstrip(": ")
        if code in _NOT_THERE:
            return Finding("unchecked", words, evidence)
        return Finding("met" if code == 0 else "refuted", words, evidence)

    # --- files -------------------------------------------------------------------------------

    async def _check_file(self, item: RequirementItem) -> Finding | None:
        """Check that a file exists, or contains a text; None if that was so before the request."""
        path, text = item.check.value.strip(), ""
        if item.check.kind == "file_contains":
            path, _, text = (part.strip() for part in item.check.value.partition(":"))
            if not text:
                return Finding("unchecked", self._words("checks.no_text"))
        try:
            place = self._workspace.locate_path(path)
            if place.zone is not Zone.INSIDE or place.leads_out or place.secret:
                return Finding("unchecked", self._words("checks.not_allowed", path=place.label))
            if not place.exists:
                return self._make_finding("refuted", place, "no_file")
            if await self._was_so(place, text):
                return None
            if item.check.kind == "file_exists":
                size = "" if place.is_dir else f"{place.size:,} B"
                return self._make_finding("met", place, "file", size)
            return await self._search_file(place, text)
        except WorkspaceError as error:
            return Finding("unchecked", self._words(error.told))

    async def _was_so(self, place: Place, text: str) -> bool:
        """Whether the file existed, and contained the text, before the request: by its content
        before the first change since then, or by its modification time if no call changed it.
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
        return not text or (await self._search_file(place, text)).outcome == "met"

    async def _search_file(self, place: Place, text: str) -> Finding:
        """Search a file for a text; the finding quotes the line."""
        if place.is_dir:
            return self._make_finding("refuted", place, "folder")
        if place.size > MAX_FILE:
            return Finding("unchecked", self._words("checks.too_large", path=place.label))
        content = (await self._workspace.read_bytes(place)).decode("utf-8", "replace")
        at = content.find(text)
        if at < 0:
            return self._make_finding("refuted", place, "not_held", text=clip_value(text, 100))
        number, text = line_at(content, at)
        line = f"{number}: {text.strip()[:_EXCERPT]}"
        return self._make_finding("met", place, "held", line, text=line)

    def _make_finding(
        self,
        outcome: Literal["met", "refuted"],
        place: Place,
        name: str,
        excerpt: str = "",
        text: str = "",
    ) -> Finding:
        """Make the finding about a file, with evidence and the text ``checks.NAME`` for models."""
        supports, now = outcome == "met", self._store.clock.now()
        source = place.shown
        evidence = Evidence(kind="file", text=excerpt, source=source, supports=supports, at=now)
        words = self._words(f"checks.{name}", path=place.label, text=text, size=excerpt)
        return Finding(outcome, words.strip(), evidence)


def _as_found(item: RequirementItem, finding: Finding) -> RequirementItem:
    """Return the requirement with state, level and evidence set by the finding of its
    check alone.
    """
    met = finding.outcome == "met"
    return item.replace(
        state=RequirementState.MET if met else RequirementState.REFUTED,
        satisfaction_level=1.0 if met else 0.0,
        evidence=(finding.evidence,) if finding.evidence is not None else (),
    )


def _command_name(command: str) -> tuple[str, ...]:
    """Normalize a command for comparison: without runners such as ``uv run``, the program's folder,
    and options for verbosity.
    """
    words = [word for part in read_command(command).parts for word in (*part.argv, part.joiner)]
    while words and words[-1] in ("", ";"):
        words.pop()
    for prefix in _RUNNERS:
        if tuple(words[: len(prefix)]) == prefix:
            words = words[len(prefix) :]
    if words:
        words[0] = words[0].rpartition("/")[2]
    return tuple(word for word in words if word not in _HOW_LOUD)


def _is_run(message: Message, command: str) -> TypeGuard[OperationMessage]:
    """Whether a message is a call that ran this command, or an equivalent one, in the workspace
    folder.
    """
    if not isinstance(message, OperationMessage) or message.operation != RUN:
        return False
    args = message.args
    return (
        _command_name(str(args.get("command", ""))) == _command_name(command)
        and str(args.get("cwd") or ".") == "."
        and not args.get("background")
    )
