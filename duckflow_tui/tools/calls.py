"""One call on its way through the router: what it holds, and what its record will say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from duckflow_tui.safety.paths import Place
from duckflow_tui.safety.policy import Access, Decision, Fact, Verdict
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import JsonObject, canonical_json, one_line
from duckflow_tui.state.calls import TAIL
from duckflow_tui.state.decision import Action
from duckflow_tui.state.gates import FilePreview, GateAnswer
from duckflow_tui.state.operations import FileChange, Outcome, Zone
from duckflow_tui.tools.changes import PlannedChange, plan_change
from duckflow_tui.tools.consent import Asked, left_out
from duckflow_tui.tools.operation import (
    AnyOperation,
    Arguments,
    Edits,
    Output,
    ToolFault,
    Work,
)
from duckflow_tui.tools.results import known, listed, stopped

_EVERY: Final = 0.05  # seconds between two events of output


class EditedByUser(Exception):
    """The user wrote another content in the gate; it must be shown before it is applied."""

    def __init__(self, text: str, proposed: tuple[PlannedChange, ...]) -> None:
        super().__init__()
        self.text = text
        self.proposed = proposed[0].after or b""


class JudgedAnew(Exception):
    """What let a call happen unasked lets it no longer: the user changed the mode meanwhile."""


GRANTED: Final = "granted"  # the policy's reason where an earlier answer allows


@dataclass(slots=True)
class Call:
    """A call on its way; what it holds already is what its record will say."""

    action: Action
    args: JsonObject  # a copy: nobody else can change it
    step_id: str = ""  # the plan's step it is made for
    by_user: bool = False  # the user ran it with ``!``; the key they pressed is the consent
    for_requirement: str = ""  # the app runs it, to see whether this requirement is met
    asked: Asked = field(default_factory=Asked)
    made: list[FileChange] = field(default_factory=list[FileChange])
    started: float | None = None  # monotonic
    renewed: bool = False
    edited: str | None = None  # the content the user wrote instead
    proposed: bytes | None = None  # what the model had proposed in its place
    work: Work | None = None  # what runs
    previews: tuple[FilePreview, ...] = ()  # of what it would change
    allowed: str = ""  # what lets it happen unasked: the name of a mode, or "granted"
    unasked: Access | None = None  # as it was judged, where nobody was asked

    @classmethod
    def of(
        cls,
        action: Action,
        step_id: str = "",
        *,
        by_user: bool = False,
        for_requirement: str = "",
    ) -> Call:
        """A call of an action, its arguments copied."""
        args = cast("JsonObject", json.loads(canonical_json(action.args)))
        return cls(action, args, step_id, by_user, for_requirement)


def no_facts(operation: AnyOperation, args: Arguments) -> frozenset[Fact]:
    """Nothing else is known about a call."""
    return frozenset()


def check_refused(call: Call, verdict: Verdict) -> None:
    """Raise the refusal, where it is one. What the user runs themselves is refused only where a
    place is protected.
    """
    if call.by_user and verdict.zone is not Zone.PROTECTED:
        return
    if verdict.kind is Decision.DENY:
        raise ToolFault(verdict.reason_text, Outcome.DENIED)


async def taken(
    changes: tuple[PlannedChange, ...], answer: GateAnswer | None
) -> tuple[PlannedChange, ...]:
    """The changes without the hunks that the user left out."""
    if answer is None or not answer.left_out:
        return changes
    kept: list[PlannedChange] = []
    for index, change in enumerate(changes):
        out = left_out(answer, index)
        rest = await change.without(out) if out else change
        if rest is not None:
            kept.append(rest)
    if not kept:
        raise ToolFault(
            "rejected by the user: every part of the change was left out; nothing was changed",
            Outcome.REJECTED,
        )
    return tuple(kept)


async def as_edited(workspace: Workspace, text: str, place: Place) -> Edits:
    """The change that gives a file the content which the user wrote in the gate."""
    before = await workspace.read_bytes(place) if place.exists else None
    change = await plan_change("modify" if place.exists else "create", place, before, before)
    try:
        after = change.edited(text)
    except ValueError as error:
        raise ToolFault(f"{place.said}: {error}; nothing was changed.") from error
    return Edits((await change.becoming(after),))


def faulty(call: Call, fault: ToolFault) -> tuple[Outcome, Output]:
    """The record of a call that did not do its work, with what it had done until then."""
    text = fault.text
    if call.made and fault.outcome is not Outcome.STOPPED:
        text = f"{text}\nDone before that: {listed(call.made)}."
    loud = fault.outcome in (Outcome.ERROR, Outcome.INVALID)
    summary = fault.summary or (one_line(text, 80) if loud else "")
    output = fault.output or Output("")
    made = tuple(call.made)
    return fault.outcome, replace(
        output, text=text, summary=summary, read=known(call.made), changes=made
    )


def halted(call: Call) -> tuple[Outcome, Output]:
    """The record of a call that was stopped, with what it had printed until then."""
    started = call.started is not None
    text = stopped(call.made, started=started)
    so_far = call.work.so_far if call.work is not None and started else None
    if so_far is None:
        return faulty(call, ToolFault(text, Outcome.STOPPED))
    output = so_far()
    fault = ToolFault(f"{text}\n{output.text}", Outcome.STOPPED, output.summary, output=output)
    return faulty(call, fault)


class Coalesced:
    """Text that comes in pieces, handed on at most 20 times a second; memory is bounded."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._parts: list[str] = []
        self._size = 0
        self._next = 0.0  # of the loop's clock: when something may be told again
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Take a piece in; it is told now or in a moment."""
        if not text:
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > 2 * TAIL:
            newest = "".join(self._parts)[-TAIL:]
            self._parts, self._size = [newest], len(newest)
        if self._loop.time() >= self._next:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._next, self.flush)

    def flush(self) -> None:
        """Tell what there is, and wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._parts:
            text = "".join(self._parts)
            self._parts, self._size = [], 0
            self._next = self._loop.time() + _EVERY
            self._tell(text)
