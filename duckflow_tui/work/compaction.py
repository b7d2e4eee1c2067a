"""Compaction: replaces the older conversation by a digest; the user can undo it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

from duckflow_tui.llm.errors import LlmError, Unreadable
from duckflow_tui.prompting import lines
from duckflow_tui.prompting.background import READ_FILE, FileRead
from duckflow_tui.prompting.budget import ASSUMED_CONTEXT
from duckflow_tui.prompting.threads import step_of
from duckflow_tui.prompting.window import KEPT
from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.state.base import ELLIPSIS, one_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import AssistantMessage, Message, UserMessage
from duckflow_tui.state.memory import (
    Compaction,
    CompactionUndone,
    ContextCompacted,
    PreservedContext,
)
from duckflow_tui.state.operations import Outcome, Zone
from duckflow_tui.tools.diffs import NotText, decode_file
from duckflow_tui.tools.operation import ToolFault
from duckflow_tui.work.attempts import ask_digest
from duckflow_tui.work.budget import BudgetEnd

if TYPE_CHECKING:
    from duckflow_tui.prompting.window import Overflow
    from duckflow_tui.state.prompt import Prompt
    from duckflow_tui.state.usage import CompactedBy
    from duckflow_tui.work.requests import SentPart
    from duckflow_tui.work.services import TurnParts

BY_HAND: Final = 0.1  # share of the room that the user's own compaction leaves

MOST_CALLS: Final = 4  # to a model, for one digest

DIGEST_SHARE: Final = 8  # the digest takes at most this part (1/8) of the room

MOST_DIGEST: Final = 2_000  # tokens, before the model's factor

INPUT_SHARE: Final = 4  # the text of one digest call takes at most this part (1/4) of a window

MOST_INPUT: Final = 20_000  # characters of one digest call; the question cuts at 24,000

SHORTEST_INPUT: Final = 500  # characters; shorter texts are useless

_HINT: Final = 400  # characters

_SAID: Final = 1_200  # characters of each message that a digest is made of

_RESULT: Final = 400

_SHORTEST: Final = 60


Undo = Literal["", "none", "no_room", "busy"]


class Compactor:
    """Compacts the conversation, undoes it, and reads what was sent. Requirements, goal,
    constraints and open approvals are kept: they are in the working memory, which every request
    carries.
    """

    def __init__(self, parts: TurnParts) -> None:
        self._parts = parts
        self._store = parts.store

    async def make_room(self, by: CompactedBy = "auto", hint: str = "") -> bool:
        """Compact the conversation if the next request would be too full, or always if ``by`` is
        ``user``. Returns False if nothing was compacted.
        """
        async with self._parts.compacting:
            state, specs = self._store.state, self._parts.router.registry.specs()
            wanted, keep = by == "user", BY_HAND if by == "user" else KEPT
            cut = self._parts.models.prompts.find_overflow(state, specs, keep=keep, always=wanted)
            if cut is None:
                return False
            await self._compact_history(cut, by, one_line(hint, _HINT))
            return True

    async def compact_by_hand(self, hint: str = "") -> str:
        """Compact the conversation at the user's wish. Returns an empty text, or why not: ``busy``,
        ``running`` or ``nothing``.
        """
        if self._store.state.turn is not None:
            return "busy"
        if self._parts.compacting.locked():
            return "running"
        return "" if await self.make_room("user", hint) else "nothing"

    def count_freeable(self) -> int:
        """Count the tokens that a manual compaction would free now, not counting its digest; 0 if
        there is too little to compact.
        """
        specs = self._parts.router.registry.specs()
        prompts = self._parts.models.prompts
        cut = prompts.find_overflow(self._store.state, specs, keep=BY_HAND, always=True)
        return cut.tokens - cut.left if cut is not None else 0

    async def undo_compaction(self, compaction_id: str = "") -> tuple[Undo, dict[str, str]]:
        """Undo the newest compaction, so that requests carry the full messages again. Returns an
        empty code, or why not (``none``, ``no_room``, ``busy``), with figures for the message.
        """
        if self._store.state.turn is not None:
            return "busy", {}
        async with self._parts.compacting:
            newest = self._store.state.compaction
            if newest is None or compaction_id not in ("", newest.compaction_id):
                return "none", {}
            state, specs = self._store.state, self._parts.router.registry.specs()
            tokens, room = self._parts.models.prompts.measure_undo(state, specs)
            if tokens > room:
                return "no_room", {"tokens": f"{tokens:,}", "room": f"{room:,}"}
            await self._store.commit(CompactionUndone(compaction_id=newest.compaction_id))
            return "", {}

    def list_sent_parts(self, llm_id: str) -> tuple[SentPart, ...] | None:
        """Return the parts of a sent request; None if this process no longer has their text."""
        return self._parts.models.requests.list_parts(llm_id)

    async def read_whole_result(self, call_id: str) -> str | None:
        """Return the full result text of a call; None if it is no longer stored."""
        try:
            return await self._parts.router.read_earlier_result(call_id)
        except (ToolFault, OSError):
            return None

    async def _compact_history(self, cut: Overflow, by: CompactedBy, hint: str) -> None:
        """Make a digest of the messages in ``cut`` and record the compaction."""
        digest, failure = await self._make_digest(cut, hint)
        users = [m for m in cut.messages if isinstance(m, UserMessage) and not m.aside]
        results = [m for m in cut.messages if isinstance(m, OperationMessage)]
        after = cut.left + self._parts.models.prompts.count_tokens(self._store.state, digest)
        compaction = Compaction(
            compaction_id=self._parts.ids("compact"),
            by=by,
            hint=hint,
            begins_at=cut.begins_at,
            digest=digest,
            failure=failure,
            kept=self._list_kept_parts(),
            exchanges=len(users),
            messages=len(cut.messages),
            results=len(results),
            tokens_before=cut.tokens,
            tokens_after=min(after, cut.tokens),
            at=self._store.clock.now(),
        )
        message_id = self._parts.ids("msg")
        await self._store.commit(ContextCompacted(compaction=compaction, message_id=message_id))

    async def _make_digest(self, cut: Overflow, hint: str) -> tuple[str, str]:
        """Return the new digest and an empty code; on failure the previous digest and an error
        code.
        """
        earlier = self._store.state.compaction
        before = earlier.digest if earlier else ""
        texts = _split_history(cut.messages, before, self._most_characters(cut, before))
        found: list[str] = []
        failure = ""
        for text in texts:
            try:
                found.append(await ask_digest(self._parts, text, hint))
            except LlmError as error:
                failure = error.code
            except Unreadable:
                failure = "unreadable"
            except BudgetEnd:
                failure = "budget"
            if failure:
                break
        if failure:
            # A partial digest would look complete; the previous one is still valid.
            return before, failure
        room = min(cut.room // DIGEST_SHARE, MOST_DIGEST)
        text = "\n".join(found)
        count = self._parts.models.prompts.count_tokens(self._store.state, text)
        if count > room:
            text = text[: int(len(text) * room / count)].rstrip() + ELLIPSIS
        return text, ""

    def _most_characters(self, cut: Overflow, before: str) -> int:
        """Compute the most characters that one digest call may contain, by the model's window and
        the tokens per character of these messages.
        """
        window = self._parts.models.service.window_of("fast") or ASSUMED_CONTEXT
        tokens = min(window, cut.context) // INPUT_SHARE
        told = [line for line in (_format_message(m, _SAID, _RESULT) for m in cut.messages) if line]
        sample = "\n".join((before, *told))
        count = self._parts.models.prompts.count_tokens(self._store.state, sample)
        characters = tokens * len(sample) // max(count, 1)
        return max(min(characters, MOST_INPUT), SHORTEST_INPUT)

    def _list_kept_parts(self) -> PreservedContext:
        """List the contents that a compaction does not remove, for display."""
        state = self._store.state
        objective, memory, plan = state.objective, state.memory, state.active_plan
        items = objective.extracted_requirements if objective else ()
        done, total = plan.progress if plan else (0, 0)
        return PreservedContext(
            goal=memory.goal,
            requirements=tuple(one_line(item.requirement, _HINT) for item in items),
            constraints=memory.constraints,
            decisions=memory.decision_log,
            plan=f"{one_line(plan.name, _HINT)} {done}/{total}" if plan else "",
            gates=tuple(
                f"{gate.operation} {one_line(gate.intent, _HINT)}".strip() for gate in state.gates
            ),
        )


MOST_CODE: Final = 256 * 1024  # bytes of a file that is sent again as it is now

_FILES: Final = 20  # of a turn or step


async def code_in_hand(parts: TurnParts, step_id: str, sent: Prompt) -> tuple[FileRead, ...]:
    """Read the current content of the files that the turn has changed, newest first, then of files
    it has read whose names occur in the request or the step. Files whose text is already in
    ``sent`` are left out, and so are files outside the workspace or over ``MOST_CODE`` bytes.
    """
    state, workspace = parts.store.state, parts.router.workspace
    memory, since = state.memory, state.turn.started_at if state.turn else 0.0
    found = step_of(state, step_id) if step_id else None
    words = [*memory.plan_brief, *memory.context_refs, memory.goal]
    words += [m.text for m in state.messages if isinstance(m, UserMessage) and m.at >= since]
    words += [lines.format_step(found[1])] if found else []
    if state.objective is not None:
        words.append(state.objective.original_query)
    about, changed, read = "\n".join(words), dict[str, None](), dict[str, None]()
    for message in reversed(state.messages):
        if not isinstance(message, OperationMessage):
            continue
        if message.at < since:
            break
        for change in message.result.changes:
            changed.setdefault(posixpath.normpath(change.target or change.path))
        path = posixpath.normpath(str(message.args.get("path", "")))
        if message.operation == READ_FILE and posixpath.basename(path) in about:
            read.setdefault(path)
    travels = [m.result.text for m in sent.history if isinstance(m, OperationMessage)]
    files: list[FileRead] = []
    for path in [*(changed | read)][:_FILES]:
        with suppress(WorkspaceError, OSError, NotText):
            place = workspace.locate_path(path)
            if place.zone is not Zone.INSIDE or place.is_dir or not 0 < place.size <= MOST_CODE:
                continue
            text = decode_file(await workspace.read_bytes(place)).text
            if not any(text.strip() in shown for shown in travels):
                files.append(FileRead(path, "", text))
    return tuple(files)


def _split_history(messages: Sequence[Message], earlier: str, most: int) -> list[str]:
    """Format messages, after the ``earlier`` digest, as texts of at most ``most`` characters each.
    There are at most ``MOST_CALLS`` texts; for that, messages are cut shorter, and at last the
    middle is dropped.
    """
    said, result = _SAID, _RESULT
    while True:
        parts = [lines.cut_text(earlier, most)] if earlier else []
        parts += [line for line in (_format_message(m, said, result) for m in messages) if line]
        texts: list[str] = []
        for part in parts:
            part = lines.cut_text(part, most)
            if texts and len(texts[-1]) + len(part) < most:
                texts[-1] = f"{texts[-1]}\n{part}"
            else:
                texts.append(part)
        if len(texts) <= MOST_CALLS:
            return texts
        if said <= _SHORTEST:
            # The oldest and newest messages say most about the origin and state of the work.
            half = MOST_CALLS // 2
            return [*texts[:half], *texts[-half:]]
        said, result = max(said // 2, _SHORTEST), max(result // 2, _SHORTEST)


def _format_message(message: Message, most_text: int, most_result: int) -> str:
    """Format a message for a digest on one line: at most ``most_text`` characters of a message,
    ``most_result`` of a call. Empty if it says nothing.
    """
    match message:
        case UserMessage():
            return f"User: {lines.cut_text(message.text, most_text)}"
        case AssistantMessage():
            why = message.decision.rationale if message.decision else ""
            text = lines.cut_text(message.text.strip() or why, most_text)
            return f"Assistant: {text}" if text else ""
        case OperationMessage():
            return f"Call: {_format_call(message, most_result)}"
        case _:
            return (
                f"Note: {lines.cut_text(message.for_model, most_text)}" if message.for_model else ""
            )


def _format_call(message: OperationMessage, most: int) -> str:
    """Format a call and its result on one line of about ``most`` characters of result."""
    result = message.result
    shown = result.summary if result.outcome is Outcome.OK else ""
    text = one_line(f"{shown} {result.text[: 2 * most]}", most)
    return f"{lines.format_call(message.operation, message.args)} -> {result.label} {text}".rstrip()
