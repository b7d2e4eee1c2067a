"""What a turn took, on a quiet line where it ended."""

from __future__ import annotations

from duckflow_tui.state.turn import TurnSummary
from duckflow_tui.ui.panes.blocks import Block, Group, Look, framed, seconds_text
from duckflow_tui.ui.panes.strips import Row, ink, rows_of


class TurnBlock(Block):
    """``4 calls · 12.3k tokens · $0.01 · 8.1 s · 1 file``."""

    group: Group = "notice"

    def __init__(self, turn: TurnSummary) -> None:
        super().__init__()
        self.turn = turn

    def draw(self, look: Look) -> list[Row]:
        said = " · ".join(self._figures(look))
        return framed(rows_of([(said, ink(look.palette.faint))], look.text_width), look)

    def _figures(self, look: Look) -> list[str]:
        turn, words = self.turn, look.words
        calls, files = turn.llm_calls, len(turn.files_changed)
        found: list[str] = [
            words("turn_line.call" if calls == 1 else "turn_line.calls", count=calls)
        ]
        if turn.tokens:
            found.append(words("turn_line.tokens", count=_short(turn.tokens)))
        if turn.cost is not None:
            found.append(f"${turn.cost:.2f}" if turn.cost >= 0.01 else f"${turn.cost:.4f}")
        found.append(seconds_text(turn.duration_s, words))
        if files:
            found.append(words("turn_line.file" if files == 1 else "turn_line.files", count=files))
        return found


def _short(count: int) -> str:
    """A count with one decimal: 812, 12.3k, 1.2M."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def turn_blocks(turn: TurnSummary) -> list[Block]:
    """The line of a turn; none where no model was asked."""
    return [TurnBlock(turn)] if turn.llm_calls else []
