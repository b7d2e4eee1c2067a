"""Which words of a changed line changed."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from duckflow_tui.ui.panes.strips import Span

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")
_MOST_WORDS: Final = 400  # above, comparing word by word costs more than it tells
_ALIKE: Final = 0.65  # lines less alike than this are two lines, not one that changed


@lru_cache(maxsize=2048)
def changed_words(old: str, new: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Character spans of what differs, in the old and in the new line.

    Both empty when the lines have too little in common for it to mean anything.
    """
    if len(old) + len(new) > 16 * _MOST_WORDS:
        return (), ()
    a, b = _WORD.findall(old), _WORD.findall(new)
    if not a or not b or len(a) + len(b) > 2 * _MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    blocks = matcher.get_matching_blocks()
    kept = sum(len("".join(a[m.a : m.a + m.size]).strip()) for m in blocks)
    total = len(old.strip()) + len(new.strip())
    if not total or 2 * kept / total < _ALIKE:
        return (), ()
    return (
        _spans(a, [(m.a, m.a + m.size) for m in blocks]),
        _spans(b, [(m.b, m.b + m.size) for m in blocks]),
    )


def _spans(words: list[str], kept: list[tuple[int, int]]) -> tuple[Span, ...]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    spans: list[Span] = []
    at = 0
    for begin, end in kept:
        if begin > at:
            spans.append((starts[at], starts[begin]))
        at = end
    return _joined("".join(words), spans)


def _joined(text: str, spans: list[Span]) -> tuple[Span, ...]:
    """Spans with nothing but spaces between them as one, without the line's indentation."""
    indent = len(text) - len(text.lstrip())

    def trimmed(span: Span) -> Span:
        return max(span[0], indent), span[1]

    done: list[Span] = []
    for start, stop in spans:
        if done and not text[done[-1][1] : start].strip():
            done[-1] = (done[-1][0], stop)
        else:
            done.append((start, stop))
    return tuple((start, stop) for start, stop in map(trimmed, done) if start < stop)
