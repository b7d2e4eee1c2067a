"""What became of a change that the diff shows: applied or not, in words, from the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import Message
from duckflow_tui.state.gates import FilePreview
from duckflow_tui.state.operations import Outcome
from duckflow_tui.ui.palette import Palette
from duckflow_tui.words.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a call, and whether the user has taken its changes back since."""

    message: OperationMessage
    undone: bool = False

    @property
    def stands(self) -> bool:
        """Whether the files are as the diff shows them."""
        return self.message.result.outcome is Outcome.OK and not self.undone


def ending_of(call_id: str, messages: Sequence[Message], undone: Sequence[str]) -> Ending | None:
    """How the call ended; None while it runs, or for no call."""
    if not call_id:
        return None
    for message in reversed(messages):
        if isinstance(message, OperationMessage) and message.call_id == call_id:
            return Ending(message, call_id in undone)
    return None


def newest_change(messages: Sequence[Message]) -> OperationMessage | None:
    """The last call that would change files, as its ``previews`` or those of its gate show it."""
    for message in reversed(messages):
        if isinstance(message, OperationMessage) and previews_of(message):
            return message
    return None


def previews_of(message: OperationMessage) -> tuple[FilePreview, ...]:
    """What the call would change; a gate that asked about it has them."""
    return message.previews or (message.gate.previews if message.gate is not None else ())


def verdict_text(ending: Ending, words: Catalogue, palette: Palette) -> Text:
    """``✗ not applied: you rejected it: too wide``; the sign says it without the colour."""
    if ending.stands:
        return Text(f"✓ {_applied(ending, words)}", style=palette.good)
    if ending.undone:
        return Text(f"↶ {words('diff.verdict.undone')}", style=palette.accent)
    result = ending.message.result
    key = "diff.verdict.partly" if result.changes else "diff.verdict.not_applied"
    said = words(key, reason=_reason(ending.message, words))
    return Text(f"✗ {said}", style=f"bold {palette.bad}")


def _applied(ending: Ending, words: Catalogue) -> str:
    answer, gate = ending.message.answer, ending.message.gate
    if answer is None or gate is None or not answer.left_out:
        return words("diff.verdict.applied")
    total = sum(len(preview.hunks) for preview in gate.previews)
    return words("diff.verdict.applied_without", count=len(answer.left_out), total=total)


def _reason(message: OperationMessage, words: Catalogue) -> str:
    result = message.result
    if result.outcome is Outcome.OK:
        return ""
    why = words(f"diff.reason.{result.outcome}")
    if result.outcome is Outcome.REJECTED and message.answer is not None:
        detail = visible_line(message.answer.reason.strip())
    else:
        detail = visible_line(result.summary)
    return f"{why}: {detail}" if detail else why
