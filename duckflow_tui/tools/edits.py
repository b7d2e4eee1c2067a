"""Exact replacements in a text, and what to say when the text to replace is not there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_SHOWN_LINES: Final = 20
_SHOWN_PLACES: Final = 5
_LONG_LINE: Final = 200
_SEARCHED_LINES: Final = 20_000  # a nearest match is looked for in no more; it is a courtesy


class EditRefused(ValueError):
    """An edit that does not fit, in words for the model; ``quote`` shows lines of the file."""

    def __init__(self, text: str, quote: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.quote = quote


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace ``old`` by ``new``: the one occurrence there is, or every one."""

    old: str
    new: str
    all: bool = False


def apply_edits(text: str, edits: Sequence[Replacement], *, crlf: bool) -> str:
    """The text after the edits, one after the other; raises EditRefused and changes nothing.

    A line break matches LF and CR LF. A replacement takes the endings of the lines it replaces,
    or with ``crlf`` CR LF where it replaces none.
    """
    for number, edit in enumerate(edits, start=1):
        label = f"edit {number}: " if len(edits) > 1 else ""
        text = _apply(text, edit, label, crlf)
    return text


def _apply(text: str, edit: Replacement, label: str, crlf: bool) -> str:
    old = edit.old.replace("\r\n", "\n")
    new = edit.new.replace("\r\n", "\n")
    if not old:
        raise EditRefused(
            f"{label}old is empty; use file_ops.write_file to give a file its content"
        )
    if old == new:
        raise EditRefused(f"{label}old and new are the same, so nothing would change")
    spans = _find(text, old)
    if not spans:
        raise EditRefused(f"{label}old was not found in the file", _nearest(text, old))
    if len(spans) > 1 and not edit.all:
        lines = ", ".join(str(text.count("\n", 0, a) + 1) for a, _ in spans[:_SHOWN_PLACES])
        more = f" and {len(spans) - _SHOWN_PLACES} more" if len(spans) > _SHOWN_PLACES else ""
        raise EditRefused(
            f"{label}old occurs {len(spans)} times, at lines {lines}{more}; "
            "give more of the lines around it, or set all to true"
        )
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at:
            continue
        parts.append(text[at:start])
        parts.append(_with_endings(new, text[start:end], crlf))
        at = end
    parts.append(text[at:])
    return "".join(parts)


def _find(text: str, old: str) -> list[tuple[int, int]]:
    """Every place where ``old`` begins, overlapping ones too: they make it ambiguous."""
    if "\r\n" not in text or "\n" not in old:
        found: list[tuple[int, int]] = []
        at = text.find(old)
        while at >= 0:
            found.append((at, at + len(old)))
            at = text.find(old, at + 1)
        return found
    pattern = re.compile("\r?\n".join(re.escape(line) for line in old.split("\n")))
    found = []
    match = pattern.search(text)
    while match:
        found.append(match.span())
        match = pattern.search(text, match.start() + 1)
    return found


def _with_endings(new: str, replaced: str, crlf: bool) -> str:
    pairs = "\r\n" in replaced if "\n" in replaced else crlf
    return new.replace("\n", "\r\n") if pairs else new


def _nearest(text: str, old: str) -> str:
    """The lines most like ``old``, numbered; empty when nothing is."""
    lines = text.replace("\r\n", "\n").split("\n")[:_SEARCHED_LINES]
    wanted = old.strip("\n").split("\n")
    keys = [line.strip() for line in wanted]
    best, score = _best_by_lines([line.strip() for line in lines], keys)
    if score == 0:
        best = _best_by_likeness(lines, max(wanted, key=len).strip(), wanted)
        if best < 0:
            return ""
    end = min(len(lines), best + min(len(wanted), _SHOWN_LINES))
    shown = "\n".join(f"{n + 1:>6}  {lines[n][:_LONG_LINE]}" for n in range(best, end))
    hint = ""
    same = [line.strip() for line in lines[best : best + len(wanted)]] == keys
    if same:
        hint = " (it differs only in spaces or tabs at the ends of lines)"
    return f"The nearest lines are{hint}:\n{shown}"


def _best_by_lines(lines: list[str], keys: list[str]) -> tuple[int, int]:
    """Where most lines of ``keys`` stand in their places; blank lines do not count."""
    where: dict[str, list[int]] = {}
    for index, line in enumerate(lines):
        where.setdefault(line, []).append(index)
    votes: dict[int, int] = {}
    for offset, key in enumerate(keys[:_SHOWN_LINES]):
        if not key:
            continue
        for index in where.get(key, ())[:200]:
            if index >= offset:
                votes[index - offset] = votes.get(index - offset, 0) + 1
    if not votes:
        return -1, 0
    best = max(votes, key=lambda start: (votes[start], -start))
    return best, votes[best]


def _best_by_likeness(lines: list[str], key: str, wanted: list[str]) -> int:
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key[:_LONG_LINE])
    best, ratio = -1, 0.6
    for index, line in enumerate(lines):
        candidate = line.strip()[:_LONG_LINE]
        if not candidate:
            continue
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() <= ratio or matcher.quick_ratio() <= ratio:
            continue
        likeness = matcher.ratio()
        if likeness > ratio:
            best, ratio = index, likeness
    if best < 0:
        return -1
    offset = next((i for i, line in enumerate(wanted) if line.strip() == key), 0)
    return max(0, best - offset)
