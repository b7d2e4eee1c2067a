"""Large pastes stand in the composer as a chip and are sent whole."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.state.base import digest

MAX_LINES: Final = 8  # more lines than that are folded
MAX_CHARS: Final = 1000  # more characters too

CHIP: Final = re.compile(r"\[Pasted \d+ lines? · [0-9a-f]{6}\]")


class FoldedPastes:
    """The texts behind the chips; a chip that was edited is plain text again."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """The chip for a large text, the text itself when it is small."""
        lines = text.count("\n") + 1
        if lines <= MAX_LINES and len(text) <= MAX_CHARS:
            return text
        word = "line" if lines == 1 else "lines"
        chip = f"[Pasted {lines} {word} · {digest(text)[:6]}]"
        self._texts[chip] = text
        return chip

    def unfold(self, text: str) -> str:
        """The text with every chip replaced by what was pasted."""
        return CHIP.sub(lambda match: self._texts.get(match.group(), match.group()), text)

    def ending_at(self, before: str) -> str | None:
        """The chip that the text before the cursor ends with."""
        for chip in self._texts:
            if before.endswith(chip):
                return chip
        return None

    def starting_at(self, after: str) -> str | None:
        """The chip that the text behind the cursor begins with."""
        for chip in self._texts:
            if after.startswith(chip):
                return chip
        return None

    def clear(self) -> None:
        """Forget the texts: the composer is empty."""
        self._texts.clear()
