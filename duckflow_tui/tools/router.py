"""The router: every call of an operation is judged, asked about, run and recorded here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from duckflow_tui.safety.paths import ContentChanged, PathRefused, Place, WorkspaceError
from duckflow_tui.safety.pending_questions import Desk
from duckflow_tui.safety.policy import (
    BY_CONSENT,
    Access,
    CallFact,
    Decision,
    PolicyRules,
    Verdict,
    judge_access,
)
from duckflow_tui.safety.risk import BULK_LINES, WIDE_FILES
from duckflow_tui.safety.rules import ANY_END
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import IdSource, JsonObject, ModelText, StateError, canonical_json
from duckflow_tui.state.calls import (
    OperationFinished,
    OperationMessage,
    OperationOutput,
    OperationProgress,
    OperationRequested,
    OperationStarted,
)
from duckflow_tui.state.decision import Action
from duckflow_tui.state.gates import UNRECORDED, GateAnswer, GateChoice
from duckflow_tui.state.operations import (
    FILE_CHANGES,
    SIDE_EFFECTS,
    Effect,
    FileChange,
    OperationResult,
    Outcome,
    Permissions,
    Risk,
    Zone,
)
from duckflow_tui.state.session import NO_SESSION
from duckflow_tui.state.store import Store
from duckflow_tui.tools.calls import (
    GRANTED,
    SANDBOX,
    Call,
    EditedByUser,
    GateKeeper,
    GateQuestion,
    JudgedAnew,
    Planned,
    Renewed,
    Together,
    check_denied,
    drop_left_out_hunks,
    no_facts,
    record_fault,
    record_stop,
    rejection_of,
)
from duckflow_tui.tools.changes import PlannedChange, describe_change
from duckflow_tui.tools.files import looked_at, plan_rewrite, unseen_write
from duckflow_tui.tools.operation import (
    RUN,
    AnyOperation,
    Arguments,
    Blobs,
    Edits,
    Output,
    Proposal,
    Registry,
    ToolContext,
    ToolFault,
    Touched,
    Work,
)
from duckflow_tui.tools.pictures import keep_images
from duckflow_tui.tools.reading import reading_facts
from duckflow_tui.tools.results import (
    MASKED,
    bound_result,
    describe_figures,
    describe_user_edits,
    find_hashes_after,
    load_earlier_result,
)
from duckflow_tui.tools.undo import Undoing
from duckflow_tui.tools.watch import OwnWrites

_CALL_ID: Final = attrgetter("call_id")
_REMOVED: Final = attrgetter("removed")
_UNSEEN: Final = attrgetter("unseen")

_UNTOUCHED: Final = Touched()
_NO_FACTS: Final = frozenset[CallFact]()

_UNASKED_TRIES: Final = 3  # times a change that needs no gate is computed anew

#: Effects that need the lock for the whole call; changes of files take it on their own.
_SERIAL: Final = frozenset({Effect.EXECUTE, Effect.REMOTE})


@dataclass(slots=True)
class ToolRouter:
    """Runs calls of operations. Calls that have effects in the workspace run one at a time.

    ``facts`` finds out what else the policy needs to know of a call. ``retry_after_s``: seconds
    before a read with a transient fault is tried again, doubled each time (S3-22).
    """

    store: Store
    workspace: Workspace
    desk: Desk
    registry: Registry
    blobs: Blobs
    ids: IdSource
    words: Callable[..., str]  # renders texts for the model
    rules: PolicyRules = field(default_factory=PolicyRules)
    facts: Callable[[AnyOperation, Arguments], Awaitable[frozenset[CallFact]]] = field(
        default=no_facts, init=False
    )
    retry_after_s: float = field(default=0.2, init=False)
    redact: Callable[[str], str] = field(default=str, init=False)  # takes keys out of results
    named: Callable[[], Sequence[str]] = field(default=tuple, init=False)  # rules for commands
    own_writes: OwnWrites = field(default_factory=OwnWrites, init=False)
    undoing: Undoing = field(init=False)
    _keeper: GateKeeper = field(init=False)
    _together: dict[str, Together] = field(default_factory=dict[str, Together], init=False)
    _kept_inside: set[str] = field(default_factory=set[str], init=False)  # arguments of commands
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._keeper = GateKeeper(self.store, self.desk, self.ids)
        self.undoing = Undoing(
            self.store, self.workspace, self.blobs, self.own_writes, self._writing
        )

    def proposed_text(self, gate_id: str) -> str | None:
        """The whole new content of the file that an open gate proposes, for the user to edit; None
        where there is none.
        """
        return self._keeper.proposed.get(gate_id)

    async def call(
        self, action: Action, *, step_id: str = "", by_user: bool = False, for_requirement: str = ""
    ) -> OperationMessage:
        """Run one action and return its recorded result; refusals and faults are results, not
        exceptions.

        ``step_id``: the plan's step it belongs to. ``by_user``: the user started it, which is their
        consent; it does not wait for other effects, and protected places stay protected.
        ``for_requirement``: the app runs it as that requirement's check; it is judged like any
        other. Raises CancelledError when it is cancelled, after the call was recorded as stopped,
        and StateError for a call id that already runs.
        """
        call = Call(action, step_id, by_user=by_user, for_requirement=for_requirement)
        if action.call_id in map(_CALL_ID, self.store.state.running):
            raise StateError(f"call {action.call_id} runs already")
        outcome, output = Outcome.ERROR, Output(self.words("call.app_failed"))
        try:
            await self.store.commit(
                OperationRequested(**call.asked_fields(), at=self.store.clock.now())
            )
            output = await self._perform_call(call)
            outcome = Outcome.OK
        except ToolFault as fault:
            outcome, output = record_fault(call, fault, self.words)
        except WorkspaceError as refused:
            outcome, output = record_fault(call, ToolFault(refused.told), self.words)
        except OSError as error:
            fault = ToolFault("call.system_refused", reason=error.strerror or str(error))
            outcome, output = record_fault(call, fault, self.words)
        except asyncio.CancelledError:
            outcome, output = record_stop(call, self.words)
            raise
        finally:
            message = await self._record_end(call, outcome, output)
        return message

    async def skip(self, action: Action, reason: str, *, step_id: str = "") -> OperationMessage:
        """Record that an action was not run, with the reason, and return the record. The action is
        not examined.
        """
        call = Call(action, step_id)
        await self.store.commit(
            OperationRequested(**call.asked_fields(), at=self.store.clock.now())
        )
        return await self._record_end(
            call, Outcome.SKIPPED, Output(self.words("call.not_run", reason=reason))
        )

    # --- one call ----------------------------------------------------------------------------

    async def _perform_call(self, call: Call) -> Output:
        """Parse and attempt a call, again whenever its files, its edits by the user or the rules
        have changed, and return its output. Raises ToolFault where a file keeps changing.
        """
        call.meant = operation, args = self._parse_call(call)
        unasked = 0
        while True:
            try:
                output = await self._attempt_call(call, operation, args)
                if output.held_back:
                    output = await self._retry_outside(call, operation, args, output)
                return output
            except JudgedAnew:
                continue
            except EditedByUser as edited:
                call.edited = edited.text
                if call.proposed is None:
                    call.proposed = edited.proposed
            except (Renewed, ContentChanged) as changed:
                call.renewed = True
                if call.gate is None:
                    unasked += 1
                if call.made or unasked > _UNASKED_TRIES:
                    raise ToolFault("call.read_again", problem=changed.told) from changed

    async def _retry_outside(
        self, call: Call, operation: AnyOperation, args: Arguments, output: Output
    ) -> Output:
        """Ask the user whether a command that its sandbox probably held back may run outside of it,
        and run it if so. Return the output with a note on what happened. Headless runs and
        commands that the user has refused before are not asked about.
        """
        call.held_back = output.held_back
        text = f"{output.text}\n{self.words(f'sandbox.held_{output.held_back}')}"
        command = canonical_json(call.args)
        if self.store.state.session.headless:
            return replace(output, text=f"{text} {self.words('sandbox.nobody')}")
        if command in self._kept_inside:
            return replace(output, text=f"{text} {self.words('sandbox.kept_inside')}")
        kept = call.args, call.gate, call.answer
        call.args = {**call.args, "outside": True}
        try:
            again = await self._attempt_call(
                call, operation, args.model_copy(update={"outside": True})
            )
        except ToolFault as fault:
            if not fault.outcome.is_refused:
                raise
            call.args, call.gate, call.answer = kept
            self._kept_inside.add(command)
            refused = self.words("sandbox.outside_refused", problem=fault.told)
            return replace(output, text=f"{text}\n{refused}")
        return replace(again, text=f"{text}\n\n{self.words('sandbox.ran_outside')}\n{again.text}")

    async def runs_unasked(self, command: str) -> bool:
        """Whether the policy would let a command line run in the workspace now, without a
        question.
        """
        return await self._kind_of(RUN, {"command": command}) is Decision.ALLOW

    async def current_permissions(self) -> Permissions:
        """Return what the policy would decide now on an example call of each operation with
        effects, and the commands and paths that rules and consents allow besides.
        """
        found: dict[Decision, list[str]] = {kind: [] for kind in Decision}
        examples = self.registry.list_examples()
        for name, args in examples.items():
            if (kind := await self._kind_of(name, args)) is not None:
                found[kind].append(name)
        for spec in self.registry.specs():
            if spec.name.startswith("mcp.") and spec.has_side_effects:
                kind = await self._kind_of(spec.name, {})
                if kind is Decision.ALLOW:  # a server's other tools ask; they need no entry each
                    found[kind].append(spec.name)
        besides: list[str] = []
        given = [(RUN, rule) for rule in self.named()]
        given += [(g.operation, g.path) for g in self.store.state.grants if not g.step_id]
        for name, text in given:
            field = "command" if name == RUN else "path"
            args = examples.get(name, {}) | {field: text.removesuffix(ANY_END)}
            if (
                await self._kind_of(name, args) is Decision.ALLOW
                and name not in found[Decision.ALLOW]
            ):
                besides.append(text)
        return Permissions(
            runs=tuple(found[Decision.ALLOW]),
            asks=tuple(found[Decision.GATE]),
            refused=tuple(found[Decision.DENY]),
            besides=tuple(besides),
        )

    async def highest_risk(self, actions: Sequence[Action]) -> Risk:
        """Return the highest risk of these calls, judged by their arguments alone; LOW where none
        can be judged.
        """
        found = [await self._verdict_of(action.operation, action.args) for action in actions]
        risks = [verdict.risk for verdict in found if verdict is not None]
        return max(risks, key=attrgetter("rank"), default=Risk.LOW)

    async def _kind_of(self, name: str, args: JsonObject) -> Decision | None:
        """Return the policy's present decision on a call; None for an unknown operation or invalid
        arguments.
        """
        verdict = await self._verdict_of(name, args)
        return verdict and verdict.kind

    async def _verdict_of(self, name: str, args: JsonObject) -> Verdict | None:
        """Return the policy's present verdict on a call, judged by its arguments without reading a
        file; None for an unknown operation or invalid arguments. A server's tool is judged
        without arguments.
        """
        operation = self.registry.get(name)
        if operation is None:
            return None
        try:
            if name.startswith("mcp."):
                meant, places = Arguments(), ()
            else:
                meant = operation.arguments.model_validate(args)
                places = tuple(map(self.workspace.locate_path, operation.paths(meant)))
        except (ValidationError, WorkspaceError):
            return None
        access = Access(
            name,
            operation.effect,
            places,
            facts=await self.facts(operation, meant),
            command=operation.command(meant) if operation.command and args else None,
            root=self.workspace.root,
            version=operation.version,
        )
        return self._judge_access(access)

    def _parse_call(self, call: Call) -> tuple[AnyOperation, Arguments]:
        """Return the operation of a call and its validated arguments. Raises ToolFault for an
        unknown operation or invalid arguments.
        """
        name = call.action.operation
        operation = self.registry.get(name)
        if operation is None:
            verdict = self._judge_access(Access(name, None))
            call.ruling = verdict.ruling
            raise ToolFault(verdict.told, Outcome.INVALID)
        if call.by_user:
            return operation, operation.parse_arguments(call.args)
        return operation, self.registry.check_arguments(name, call.args)

    async def _attempt_call(self, call: Call, operation: AnyOperation, args: Arguments) -> Output:
        """Judge a call, ask the user where needed, and run it. Raises ToolFault for a refusal,
        EditedByUser where the user edited the change, and Renewed, ContentChanged or JudgedAnew
        where it must be attempted again.
        """
        if operation.ready is not None and not call.by_user:
            await operation.ready()
        places = tuple(map(self.workspace.locate_path, operation.paths(args)))
        known_facts = reading_facts(args)
        for_user = call.action.for_user and not self.store.state.session.headless
        known_facts |= {CallFact.FOR_USER} if for_user else _NO_FACTS
        known_facts |= {CallFact.FROM_TEXT} if call.action.from_text else _NO_FACTS
        access = Access(
            operation.name,
            operation.effect,
            places,
            facts=await self.facts(operation, args) | known_facts,
            # No rule applies to a line that the user runs.
            command=None if operation.command is None or call.by_user else operation.command(args),
            root=self.workspace.root,
            version=operation.version,
            hosts=() if operation.hosts is None else operation.hosts(args),
        )
        # Before a preview reads anything.
        check_denied(call, self._judge_access(access, call.step_id))
        shown = call.args  # in the gate: all that will be used (R14)
        if call.edited is not None:
            shown = {"path": operation.paths(args)[0], "content": call.edited}
        proposal = await self._make_proposal(call, operation, args, places)
        changes: tuple[PlannedChange, ...] = ()
        if isinstance(proposal, Edits):
            changes = proposal.changes
            call.previews = tuple(map(PlannedChange.make_preview, changes))
            access = replace(
                access,
                content=changes[0].diff.after if len(changes) == 1 else None,
                before=changes[0].diff.before if len(changes) == 1 else None,
                removed_lines=sum(map(_REMOVED, call.previews)),
            )
        together = self._together.get(call.action.call_id)
        if together is not None:
            access = together.with_all_changes(access)
        verdict = self._judge_access(access, call.step_id)
        check_denied(call, verdict)
        if call.renewed and call.gate is not None:
            # A consent given at the gate was for the content shown there, which has changed (R15).
            verdict = replace(verdict, kind=Decision.GATE)
        answer: GateAnswer | None = None
        allowed = verdict.kind is Decision.ALLOW
        call.unasked = access if allowed and not call.by_user else None
        if call.unasked is not None and operation.effect in SIDE_EFFECTS:
            granted = GRANTED in verdict.reasons
            call.allowed = GRANTED if granted else self.store.state.mode.value
            if CallFact.HELD in access.facts and CallFact.NAMED not in access.facts:
                call.allowed = SANDBOX
        if not allowed and not call.by_user:
            if isinstance(proposal, Work) and proposal.find_facts is not None:
                facts = {**proposal.facts, **await proposal.find_facts()}
                proposal = replace(proposal, facts=facts)
            question = GateQuestion(call, shown, operation.effect, places, proposal, verdict)
            if together is None or len(changes) != 1 or call.edited is not None:
                answer = await self._keeper.ask(question)
            else:
                answer = await self._ask_together(together, question)
            assert call.gate is not None
            if (no := rejection_of(answer, call.gate)) is not None:
                raise no
            if answer.choice is GateChoice.EDIT:
                raise EditedByUser(answer.edited or "", changes)
        for place in places:
            if "special_file" in place.reasons:
                raise PathRefused("special_file", place.given)
        if not isinstance(proposal, Edits):
            return await self._run(call, operation, proposal)
        if answer is not None and answer.left_out:
            changes = await drop_left_out_hunks(changes, answer)
        return await self._apply(call, proposal, changes)

    async def _make_proposal(
        self, call: Call, operation: AnyOperation, args: Arguments, places: tuple[Place, ...]
    ) -> Proposal:
        """Return the changes or the work that a call proposes, or the user's own version of its
        change. Raises ToolFault.
        """
        if call.edited is not None:
            if any(preview.unseen for preview in call.previews):
                return unseen_write(places[0], call.edited)
            return Edits((await plan_rewrite(self.workspace, places[0], call.edited),))
        state, call_id = self.store.state, call.action.call_id

        def progress(text: str) -> None:
            """Show a note on the running call."""
            self.store.dispatch(OperationProgress(call_id=call_id, text=text))

        def output(text: str) -> None:
            """Show a piece of the running call's output."""
            now = self.store.clock.now()
            self.store.dispatch(OperationOutput(call_id=call_id, text=text, at=now))

        context = ToolContext(
            workspace=self.workspace,
            seen=MappingProxyType(state.files_read),
            changed_outside=state.changed_outside,
            progress=progress,
            result=self.read_earlier_result,
            words=self.words,
            output=output,
            call_id=call_id,
            by_user=call.by_user,
            redact=self.redact,
        )
        try:
            return await operation.prepare(args, places, context)
        except ToolFault as fault:
            if call.renewed:
                problem = fault.told
                raise ToolFault("call.changed_meanwhile", fault.outcome, problem=problem) from fault
            raise

    # --- the changes of one decision -------------------------------------------------------------

    async def weigh_changes(self, actions: Sequence[Action], step_id: str = "") -> None:
        """Judge the file changes of one decision together (S4-110). If they touch many files or
        remove many lines in all, each of them needs consent in every mode, and one gate asks for
        as many as possible.
        """
        found = [p for action in actions if (p := await self._plan_call(action, step_id))]
        files = len({place.resolved for p in found for place in p.places})
        removed = sum(p.access.removed_lines for p in found)
        if len(found) > 1 and (files >= WIDE_FILES or removed >= BULK_LINES):
            together = Together(tuple(actions), files, removed)
            self._together |= dict.fromkeys((p.call.action.call_id for p in found), together)

    async def _plan_call(self, action: Action, step_id: str) -> Planned | None:
        """Return the planned file change of a call, without a change where it cannot be planned
        yet; None where the call changes no file or is refused.
        """
        call = Call(action, step_id)
        operation = self.registry.get(action.operation)
        if operation is None or operation.effect not in FILE_CHANGES:
            return None
        try:
            operation, args = self._parse_call(call)
            places = tuple(map(self.workspace.locate_path, operation.paths(args)))
            access = Access(operation.name, operation.effect, places)
            if self._judge_access(access, step_id).kind is Decision.DENY:
                return None
        except (ToolFault, WorkspaceError):
            return None
        try:
            proposal = await self._make_proposal(call, operation, args, places)
        except (ToolFault, WorkspaceError, OSError):
            return Planned(call, access, places, None)  # it may become possible when its turn comes
        if not isinstance(proposal, Edits) or len(proposal.changes) != 1:
            return Planned(call, access, places, None)
        change = proposal.changes[0]
        diff = change.diff
        access = replace(access, content=diff.after, before=diff.before, removed_lines=diff.removed)
        return Planned(call, access, places, change)

    async def _ask_together(self, together: Together, question: GateQuestion) -> GateAnswer:
        """Return the user's answer for this call: one given before together with other calls, or a
        new one, asked for this call and those behind it.
        """
        call = question.call
        given = together.allowed.pop(call.action.call_id, None)
        if given is not None and given.matches_call(call.action, question.file_changes):
            call.gate, call.answer = given.gate, given.answer
            return given.answer
        others = await self._plan_others(together, call, question.places)
        if not others:
            return await self._keeper.ask(question)
        verdict = question.verdict
        for other in others:
            own = self._judge_access(together.with_all_changes(other.access), call.step_id)
            verdict = verdict.join_verdict(own)
        return await self._keeper.ask_all(together, question._replace(verdict=verdict), others)

    async def _plan_others(
        self, together: Together, call: Call, places: tuple[Place, ...]
    ) -> list[Planned]:
        """Return the calls behind this one that the same gate can ask for: those with a planned
        change of a file that no earlier one touches.
        """
        taken_up = {place.resolved for place in places}
        at = next(n for n, a in enumerate(together.actions) if a.call_id == call.action.call_id)
        found: list[Planned] = []
        for action in together.actions[at + 1 :]:
            other = await self._plan_call(action, call.step_id)
            if other is None or other.change is None or action.call_id in together.allowed:
                continue
            own = {place.resolved for place in other.places}
            if own.isdisjoint(taken_up):
                found.append(other)
            taken_up |= own
        return found

    async def read_earlier_result(self, handle: str) -> str:
        """Return the whole text of an earlier result of this session, by call id or hash. Raises
        ToolFault or OSError.
        """
        return await load_earlier_result(self.store.state, self.blobs, handle)

    def _judge_access(self, access: Access, step_id: str = "") -> Verdict:
        """Return the policy's verdict on an access under the present mode, consents and rules. An
        effect needs a gate where the journal cannot be written and the user has not agreed to
        that.
        """
        state = self.store.state
        verdict = judge_access(
            access,
            state.mode,
            state.grants,
            max_write=self.rules.max_write,
            step_id=step_id,
            keeps=self.rules.keeps,
        )
        if state.unkept and access.effect in SIDE_EFFECTS and self._is_unrecorded():
            denied = verdict.kind is Decision.DENY
            kind = Decision.DENY if denied else Decision.GATE
            return replace(verdict, kind=kind, reasons=(*verdict.reasons, UNRECORDED))
        return verdict

    def _is_unrecorded(self) -> bool:
        """Whether the journal cannot be written and the user has not yet agreed to go on without
        it.
        """
        state = self.store.state
        return state.unkept not in ("", NO_SESSION) and not state.unkept_agreed

    # --- doing -------------------------------------------------------------------------------

    async def _record_start(self, call: Call, expects: tuple[FileChange, ...] = ()) -> None:
        """Record that the call starts. Raises JudgedAnew where the policy no longer allows it
        without a question, as a rule may have been revoked while it waited, or where the journal
        cannot be written and the user has not agreed to that.
        """
        first = call.unasked
        if first and call.meant:  # a rule may have been revoked meanwhile
            now = replace(first, facts=first.facts - BY_CONSENT | await self.facts(*call.meant))
            if self._judge_access(now, call.step_id).kind is not Decision.ALLOW:
                raise JudgedAnew
        clock = self.store.clock
        event = OperationStarted(call_id=call.action.call_id, at=clock.now(), expects=expects)
        await self.store.commit(event)
        changes = self.store.state.unkept and self.registry.has_effects(call.action.operation)
        if changes and not call.by_user and self._is_unrecorded():
            raise JudgedAnew
        call.started = clock.monotonic()

    async def _run(self, call: Call, operation: AnyOperation, work: Work) -> Output:
        """Run the work of a call and return its output. A read with a transient fault is repeated
        up to its operation's limit; the retries are shown while it runs and noted in its result
        (S3-22).
        """
        call.work = work
        if operation.effect in _SERIAL and not call.by_user:
            async with self._writing:
                await self._record_start(call)
                return await work.run()
        await self._record_start(call)
        most = operation.retries if operation.effect is Effect.READ else 0
        faults: list[ToolFault] = []
        while True:
            try:
                output = await work.run()
            except ToolFault as fault:
                faults.append(fault)
                if not fault.transient or len(faults) > most:
                    if len(faults) > 1:
                        tries = {"problem": fault.told, "count": str(len(faults))}
                        fault.told = ModelText("call.tried", tries)
                    raise
            else:
                if not faults:
                    return output
                tries = {"problem": faults[-1].told, "count": str(len(faults) + 1)}
                return replace(output, text=f"{self.words('call.retried', **tries)}\n{output.text}")
            text = f"↻ {len(faults)}/{most}"
            self.store.dispatch(OperationProgress(call_id=call.action.call_id, text=text))
            await asyncio.sleep(self.retry_after_s * 2 ** (len(faults) - 1))

    async def _apply(
        self, call: Call, proposal: Edits, changes: tuple[PlannedChange, ...]
    ) -> Output:
        """Make these file changes after checking that no file has changed since it was read, and
        return the output that describes them. Raises Renewed where one has.
        """
        lines: list[str] = []
        read: dict[str, str] = {}
        async with self._writing:
            if True in map(_UNSEEN, changes):
                changes = tuple([await self._bind_agreed_change(change) for change in changes])
            for change in changes:
                if await self.workspace.hash_file(change.place) != change.before_hash:
                    raise Renewed(change.place)
            expected = tuple(map(PlannedChange.expected_change, changes))
            await self._record_start(call, expected)
            for change, becomes in zip(changes, expected, strict=True):
                hashes = find_hashes_after((becomes,))
                if change.place.is_link:
                    hashes[change.place.shown] = becomes.after
                with self.own_writes.expect_writes(hashes):
                    call.made.append(await change.make_change(self.workspace, self.blobs))
                read |= hashes
                lines.append(f"{describe_change(call.made[-1])}.")
        if call.answer is not None:
            lines += await describe_user_edits(
                proposal.changes, changes, call.answer, call.proposed, self.words
            )
        if proposal.note:
            lines.append(proposal.note)
        for change in changes:  # the model does not know content that it was not given
            edited = call.edited is not None and change.place.zone is not Zone.INSIDE
            if edited or (change.unseen and change.target is not None):
                read = dict.fromkeys(read, "")
        return Output("\n".join(lines), describe_figures(call.made), read, tuple(call.made))

    async def _bind_agreed_change(self, change: PlannedChange) -> PlannedChange:
        """Return the change that was agreed to. If the gate could not show its file, the file is
        read now. Raises Renewed where the path leads to another place than it did at the gate.
        """
        place = change.place
        if not change.unseen:
            return change
        if self.workspace.locate_path(place.given) != place:
            raise Renewed(place)
        return await looked_at(change, self.workspace)

    async def _record_end(self, call: Call, outcome: Outcome, output: Output) -> OperationMessage:
        """Record the result of a call, with secrets masked and its text bounded, and return the
        record.
        """
        text = self.redact(output.text)
        if text != output.text:
            text = f"{text}\n{MASKED}"
        text, cut, blob = await bound_result(text, self.blobs)
        try:
            images, left_out = await keep_images(output.images, self.blobs, self.redact)
            told = [self.words(why) for why in left_out]
        except OSError as error:
            images = ()
            told = [self.words("image.not_kept", reason=error.strerror or str(error))]
        text = "\n".join((text, *told))
        # What the operation itself cut counts too; its own blob keeps the whole.
        cut, blob = output.cut + cut, output.blob or blob
        duration = 0.0 if call.started is None else self.store.clock.monotonic() - call.started
        touched = call.work.touched[0] if call.work and call.work.touched else _UNTOUCHED
        message = OperationMessage(
            **call.asked_fields(),
            gate=call.gate,
            answer=call.answer,
            previews=touched.previews or (() if call.gate is not None else call.previews),
            allowed="" if call.gate is not None else call.allowed,
            ruling=call.ruling,
            result=OperationResult(
                outcome=outcome,
                text=text,
                summary=output.summary,
                changes=output.changes,
                touched=touched.changes,
                destroyed=touched.destroyed,
                covered=touched.whole,
                truncated_chars=cut,
                blob=blob,
                images=images,
                duration_s=duration,
                exit_code=output.exit_code,
            ),
            for_requirement=call.for_requirement,
            at=self.store.clock.now(),
        )
        await self.store.commit(OperationFinished(message=message, files_read=dict(output.read)))
        return message
