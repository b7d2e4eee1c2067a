"""The one way from a call of the model to an effect, and to its result."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, cast

from pydantic import ValidationError

from duckflow_tui.safety.gates import Consent
from duckflow_tui.safety.place import ContentChanged, Place, WorkspaceError
from duckflow_tui.safety.policy import MAX_WRITE, Access, Decision, DenyRule, Verdict, judge
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import JsonObject, canonical_json, one_line
from duckflow_tui.state.decision import Action
from duckflow_tui.state.events import (
    OperationFinished,
    OperationProgress,
    OperationRequested,
    OperationStarted,
    StateError,
)
from duckflow_tui.state.gates import GateAnswer, GateChoice
from duckflow_tui.state.ids import IdSource
from duckflow_tui.state.messages import OperationMessage
from duckflow_tui.state.operations import (
    FileChange,
    OperationResult,
    OperationSpec,
    Outcome,
)
from duckflow_tui.state.store import Store
from duckflow_tui.tools.changes import PlannedChange, plan_change, told
from duckflow_tui.tools.consent import (
    Asked,
    GateKeeper,
    Question,
    Renewed,
    hash_of,
    left_out,
    refusal,
)
from duckflow_tui.tools.operation import (
    AnyOperation,
    Arguments,
    Blobs,
    Edits,
    Output,
    Proposal,
    ToolContext,
    ToolFault,
)
from duckflow_tui.tools.registry import Registry
from duckflow_tui.tools.results import bounded, by_the_user, known, listed, stopped
from duckflow_tui.tools.schema import argument_problems, references
from duckflow_tui.tools.undo import UndoReport, undo_last
from duckflow_tui.tools.watch import OwnWrites

_UNASKED_TRIES: Final = 3  # times a change that needs no gate is computed anew


class _EditedByUser(Exception):
    """The user wrote another content in the gate; it must be shown before it is applied."""

    def __init__(self, text: str, proposed: tuple[PlannedChange, ...]) -> None:
        super().__init__()
        self.text = text
        self.proposed = proposed[0].after or b""


@dataclass(slots=True)
class _Call:
    """A call on its way; what it holds already is what its record will say."""

    action: Action
    args: JsonObject  # a copy: nobody else can change it
    asked: Asked = field(default_factory=Asked)
    made: list[FileChange] = field(default_factory=list[FileChange])
    started: float | None = None  # monotonic
    renewed: bool = False
    edited: str | None = None  # the content the user wrote instead
    proposed: bytes | None = None  # what the model had proposed in its place


@dataclass(slots=True)
class ToolRouter:
    """Calls operations, one path for all of them; effects in the workspace one after the other."""

    store: Store
    workspace: Workspace
    broker: Consent
    registry: Registry
    blobs: Blobs
    ids: IdSource
    max_write_bytes: int = MAX_WRITE
    deny: tuple[DenyRule, ...] = ()
    own_writes: OwnWrites = field(default_factory=OwnWrites)
    _keeper: GateKeeper = field(init=False)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._keeper = GateKeeper(self.store, self.broker, self.ids)

    def specs(self) -> tuple[OperationSpec, ...]:
        """The operations, as the prompt and native calls name them."""
        return self.registry.specs()

    def proposed_text(self, gate_id: str) -> str | None:
        """The whole new content behind an open gate; what an edit of it starts from."""
        return self._keeper.proposed_text(gate_id)

    async def undo_last(self) -> UndoReport:
        """Take back the newest changes that are not undone yet, byte for byte, or say why not."""
        async with self._writing:
            return await undo_last(self.store, self.workspace, self.blobs, self.own_writes)

    async def call(self, action: Action) -> OperationMessage:
        """Run one action to its recorded end; refusals and faults are results, not exceptions.

        Raises CancelledError when it is cancelled, after the call was recorded as stopped, and
        StateError for a call id that runs already.
        """
        call = _Call(action, cast("JsonObject", json.loads(canonical_json(action.args))))
        if any(running.call_id == action.call_id for running in self.store.state.running):
            raise StateError(f"call {action.call_id} runs already")
        outcome, output = Outcome.ERROR, Output("The app itself failed while it ran this.")
        try:
            await self._request(call)
            output = await self._perform(call)
            outcome = Outcome.OK
        except ToolFault as fault:
            outcome, output = _faulty(call, fault)
        except WorkspaceError as refused:
            outcome, output = _faulty(call, ToolFault(str(refused)))
        except OSError as error:
            reason = error.strerror or str(error)
            outcome, output = _faulty(call, ToolFault(f"The system refused: {reason}."))
        except asyncio.CancelledError:
            outcome, output = _faulty(
                call,
                ToolFault(stopped(call.made, started=call.started is not None), Outcome.STOPPED),
            )
            raise
        finally:
            message = await self._finish(call, outcome, output)
        return message

    async def skip(self, action: Action, reason: str) -> OperationMessage:
        """Record that an action was not run, and why: nothing of it was looked at."""
        call = _Call(action, cast("JsonObject", json.loads(canonical_json(action.args))))
        await self._request(call)
        return await self._finish(call, Outcome.SKIPPED, Output(f"not run: {reason}"))

    # --- one call ----------------------------------------------------------------------------

    async def _perform(self, call: _Call) -> Output:
        operation, args = self._understood(call)
        unasked = 0
        while True:
            try:
                return await self._attempt(call, operation, args)
            except _EditedByUser as edited:
                call.edited = edited.text
                if call.proposed is None:
                    call.proposed = edited.proposed
            except (Renewed, ContentChanged) as changed:
                call.renewed = True
                if call.asked.gate is None:
                    unasked += 1
                if call.made or unasked > _UNASKED_TRIES:
                    raise ToolFault(f"{changed} Read it again.") from changed

    def _understood(self, call: _Call) -> tuple[AnyOperation, Arguments]:
        """The operation and its arguments; raises ToolFault for what cannot be meant."""
        name = call.action.operation
        operation = self.registry.get(name)
        if operation is None:
            verdict = self._judge(Access(name, None, args_hash=hash_of(name, call.args)))
            nearest = self.registry.nearest(name)
            hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
            raise ToolFault(f"{verdict.reason_text}{hint}".strip(), Outcome.INVALID)
        if not call.action.reasoning.strip():
            raise ToolFault(
                "reasoning is required: say in one sentence why this call is made.",
                Outcome.INVALID,
            )
        found = references(call.args, operation.content)
        if found:
            raise ToolFault(
                f"Arguments must hold the values themselves; nothing fills in a reference "
                f"({'; '.join(found)}). Wait for the result you need, then make the call with it.",
                Outcome.INVALID,
            )
        try:
            return operation, operation.arguments.model_validate(call.args)
        except ValidationError as error:
            raise ToolFault(
                f"The arguments of {name} are wrong: {argument_problems(error)}. Nothing ran.",
                Outcome.INVALID,
            ) from error

    async def _attempt(self, call: _Call, operation: AnyOperation, args: Arguments) -> Output:
        """Look, judge, ask, do. Raises Renewed or ContentChanged when it must look again."""
        places = tuple(self.workspace.locate(path) for path in operation.paths(args))
        access = Access(operation.name, operation.effect, places, None, call.action.args_hash)
        _check_denied(self._judge(access))  # before anything is read for a preview
        shown = self._shown_args(call, operation, args)
        access = replace(access, args_hash=hash_of(operation.name, shown))
        proposal = await self._proposal(call, operation, args, places)
        changes: tuple[PlannedChange, ...] = ()
        if isinstance(proposal, Edits):
            changes = proposal.changes
            removed = sum(change.diff.removed for change in changes)
            content = changes[0].after if len(changes) == 1 else None
            access = replace(access, content=content, removed_lines=removed)
        verdict = self._judge(access)
        _check_denied(verdict)
        answer: GateAnswer | None = None
        if verdict.kind is not Decision.ALLOW:
            question = Question(
                call.action,
                shown,
                operation.effect,
                places,
                proposal,
                verdict,
                renewed=call.renewed,
                edited=call.edited is not None,
            )
            answer = await self._keeper.ask(question, call.asked)
            assert call.asked.gate is not None
            if (no := refusal(answer, call.asked.gate)) is not None:
                raise no
            if answer.choice is GateChoice.EDIT:
                raise _EditedByUser(answer.edited or "", changes)
        if not isinstance(proposal, Edits):
            await self._start(call)
            return await proposal.run()
        taken = await _taken(changes, answer)
        return await self._apply(call, proposal, taken)

    async def _proposal(
        self, call: _Call, operation: AnyOperation, args: Arguments, places: tuple[Place, ...]
    ) -> Proposal:
        if call.edited is not None:
            return await self._as_edited(call.edited, places[0])
        state = self.store.state
        call_id = call.action.call_id

        def progress(text: str) -> None:
            self.store.dispatch(OperationProgress(call_id=call_id, text=text))

        context = ToolContext(
            workspace=self.workspace,
            seen=MappingProxyType(state.files_read),
            changed_outside=state.changed_outside,
            progress=progress,
        )
        try:
            return await operation.prepare(args, places, context)
        except ToolFault as fault:
            if call.renewed:
                raise ToolFault(
                    f"The file changed while the user was looking at the change. {fault.text}",
                    fault.outcome,
                ) from fault
            raise

    async def _as_edited(self, text: str, place: Place) -> Edits:
        before = await self.workspace.read_bytes(place) if place.exists else None
        change = await plan_change("modify" if place.exists else "create", place, before, before)
        try:
            after = change.edited(text)
        except ValueError as error:
            raise ToolFault(f"{place.shown}: {error}; nothing was changed.") from error
        return Edits((await change.becoming(after),))

    @staticmethod
    def _shown_args(call: _Call, operation: AnyOperation, args: Arguments) -> JsonObject:
        """What the gate shows as arguments: all that will be used (R14)."""
        if call.edited is None:
            return call.args
        return {"path": operation.paths(args)[0], "content": call.edited}

    def _judge(self, access: Access) -> Verdict:
        state = self.store.state
        return judge(
            access, state.mode, state.grants, deny=self.deny, max_write=self.max_write_bytes
        )

    # --- doing -------------------------------------------------------------------------------

    async def _request(self, call: _Call) -> None:
        """The intent, on disk before anything is touched."""
        action = call.action
        await self.store.commit(
            OperationRequested(
                call_id=action.call_id,
                operation=action.operation,
                args=call.args,
                reasoning=action.reasoning,
                intent=action.intent,
                at=self.store.clock.now(),
            )
        )

    async def _start(self, call: _Call) -> None:
        clock = self.store.clock
        await self.store.commit(OperationStarted(call_id=call.action.call_id, at=clock.now()))
        call.started = clock.monotonic()

    async def _apply(
        self, call: _Call, proposal: Edits, changes: tuple[PlannedChange, ...]
    ) -> Output:
        async with self._writing:
            for change in changes:
                if await self.workspace.digest(change.place) != change.before_hash:
                    raise Renewed(f"{change.place.shown} changed since it was shown.")
            await self._start(call)
            for change in changes:
                with self.own_writes.expecting(change):
                    call.made.append(await change.make(self.workspace, self.blobs))
        lines = [f"{told(change)}." for change in call.made]
        lines.extend(await by_the_user(proposal.changes, changes, call.asked.answer, call.proposed))
        if proposal.note:
            lines.append(proposal.note)
        added = sum(change.added for change in call.made)
        removed = sum(change.removed for change in call.made)
        summary = f"+{added} −{removed}" if added or removed else ""
        return Output("\n".join(lines), summary, known(call.made), tuple(call.made))

    async def _finish(self, call: _Call, outcome: Outcome, output: Output) -> OperationMessage:
        text, cut, blob = await bounded(output.text, self.blobs)
        clock = self.store.clock
        duration = 0.0 if call.started is None else clock.monotonic() - call.started
        message = OperationMessage(
            call_id=call.action.call_id,
            operation=call.action.operation,
            args=call.args,
            reasoning=call.action.reasoning,
            intent=call.action.intent,
            gate=call.asked.gate,
            answer=call.asked.answer,
            result=OperationResult(
                outcome=outcome,
                text=text,
                summary=output.summary,
                changes=output.changes,
                truncated_chars=cut,
                blob=blob,
                duration_s=duration,
            ),
            at=clock.now(),
        )
        await self.store.commit(OperationFinished(message=message, files_read=dict(output.read)))
        return message


def _check_denied(verdict: Verdict) -> None:
    if verdict.kind is Decision.DENY:
        raise ToolFault(verdict.reason_text, Outcome.DENIED)


async def _taken(
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


def _faulty(call: _Call, fault: ToolFault) -> tuple[Outcome, Output]:
    text = fault.text
    if call.made and fault.outcome is not Outcome.STOPPED:
        text = f"{text}\nDone before that: {listed(call.made)}."
    loud = fault.outcome in (Outcome.ERROR, Outcome.INVALID)
    summary = fault.summary or (one_line(text, 80) if loud else "")
    return fault.outcome, Output(text, summary, known(call.made), tuple(call.made))
