"""Edits of a text: replacements of ``old`` by ``new``, where ``old`` occurs exactly or with small
differences.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from duckflow_tui.state.base import ModelText, ToldError
from duckflow_tui.state.lines import split_bare_lines, split_lines
from duckflow_tui.tools.operation import Arguments


class Edit(Arguments):
    old: str = Field(default="", description="Exactly as it stands, long enough to occur once.")
    new: str
    all: bool = Field(default=False, description="Every occurrence.")
    lines: SkipJsonSchema[str] = ""  # instead of ``old``; a range that a refusal offered


_SHOWN_LINES: Final = 20
_SHOWN_PLACES: Final = 5
_LONG_LINE: Final = 200
_SEARCHED_LINES: Final = 20_000  # the search for a nearest match is limited to these
_HASH: Final = 8  # hex digits of the file's SHA-256 that a range of lines is bound to

#: The kind of difference of a text that does not occur exactly, as a code for the gate.
Near = Literal["other_blanks", "other_characters", "other_indentation"]

#: Characters that models confuse, mapped one to one: quotes, dashes, spaces.
_ALIKE: Final = str.maketrans(
    "\u2018\u2019\u201a\u201b\u2032\u201c\u201d\u201e\u201f\u2033"
    "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
    "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    "'" * 5 + '"' * 5 + "-" * 7 + " " * 15,
)
_BLANKS: Final = " \t"


class EditRefused(ToldError):
    """An edit that cannot be applied. ``nearest`` shows the lines of the file most similar to
    ``old``.
    """

    def __init__(self, name: str, nearest: ModelText | None = None, **values: str) -> None:
        """``name`` selects the text ``edit.<name>``, filled with ``values``."""
        super().__init__(f"edit.{name}", **values)
        self.nearest = nearest


class Edited(NamedTuple):
    """The text after the edits, and the kinds of differences where ``old`` did not occur
    exactly.
    """

    text: str
    near: tuple[Near, ...] = ()


def apply_edits(text: str, edits: Sequence[Edit], *, crlf: bool, sha: str = "") -> Edited:
    """Apply edits to a text one after the other; raises EditRefused if one does not fit.

    A line break matches LF and CR LF. A replacement takes the line endings of the lines it
    replaces; where it replaces none, CR LF if ``crlf``. Where ``old`` does not occur exactly, it
    matches if exactly one place differs only in blanks at line ends, in the kind of its quotes,
    dashes and spaces, or in the same shift of indentation on all lines; lines that ``new`` repeats
    of ``old`` then stay as in the file. ``sha`` is the hexadecimal SHA-256 of the file, which an
    edit by ``lines`` must name.
    """
    near: list[Near] = []
    for number, edit in enumerate(edits, start=1):
        try:
            if edit.lines and len(edits) > 1:
                raise EditRefused("lines_not_alone")
            if edit.lines:
                return Edited(_replace_lines(text, edit, sha, crlf))
            text, how = _apply(text, edit, crlf, sha)
        except EditRefused as refused:
            if len(edits) > 1:
                problem = {"number": str(number), "problem": refused.told}
                refused.told = ModelText("edit.of_several", problem)
            raise
        if how is not None and how not in near:
            near.append(how)
    return Edited(text, tuple(near))


def _apply(text: str, edit: Edit, crlf: bool, sha: str) -> tuple[str, Near | None]:
    """Apply one edit; return the new text and the kind of difference between ``old`` and the text
    found, None for an exact match. Raises EditRefused.
    """
    old = edit.old.replace("\r\n", "\n")
    new = edit.new.replace("\r\n", "\n")
    if not old:
        raise EditRefused("old_empty")
    if old == new:
        raise EditRefused("old_is_new")
    how: Near | None = None
    # Overlapping occurrences count too: they make it ambiguous.
    spans = _find_spans(text, "\r?\n".join(map(re.escape, old.split("\n"))))
    if not spans:
        spans, new, how = _find_near(text, old, new)
        if len(spans) > 1:
            places = {"count": str(len(spans)), "lines": _line_numbers(text, spans)}
            raise EditRefused("several_like_it", None, **places)
    if not spans:
        raise EditRefused("not_found", _describe_nearest(text, old, sha))
    if len(spans) > 1 and not edit.all:
        places = {"count": str(len(spans)), "lines": _line_numbers(text, spans)}
        raise EditRefused("several", None, **places)
    lead = text[text.rfind("\n", 0, spans[0][0]) + 1 : spans[0][0]]
    rows = new.split("\n")
    if how is None and len(spans) == 1 and lead and not lead.strip(_BLANKS) and old in rows[1:]:
        # ``new`` repeats the line below without indentation: the model left it out on all lines.
        rows[1:] = [lead + row if row.strip(_BLANKS) else row for row in rows[1:]]
        new, how = "\n".join(rows), "other_indentation"
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at:
            continue
        parts.append(text[at:start])
        parts.append(_with_endings(new, text[start:end], crlf))
        at = end
    parts.append(text[at:])
    return "".join(parts), how


def _with_endings(new: str, replaced: str, crlf: bool) -> str:
    """Return ``new`` with CR LF if ``replaced`` has it; where ``replaced`` has no line break, if
    ``crlf``.
    """
    pairs = "\r\n" in replaced if "\n" in replaced else crlf
    return new.replace("\n", "\r\n") if pairs else new


def _line_numbers(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the line numbers where the spans begin, at most five."""
    lines = ", ".join(str(text.count("\n", 0, a) + 1) for a, _ in spans[:_SHOWN_PLACES])
    return f"{lines}, …" if len(spans) > _SHOWN_PLACES else lines


def _replace_lines(text: str, edit: Edit, sha: str, crlf: bool) -> str:
    """Return the text with the line range of ``edit.lines`` replaced. Raises EditRefused where the
    range is invalid or its hash is not that of the file.
    """
    found = re.fullmatch(r"(\d{1,9})-(\d{1,9})@([0-9a-f]{8})", edit.lines)
    if found is None or edit.old:
        raise EditRefused("no_range_of_lines")
    if found[3] != sha[:_HASH]:
        raise EditRefused("other_file")
    rows = split_lines(text)
    first, last = int(found[1]), int(found[2])
    if not 1 <= first <= last <= len(rows):
        raise EditRefused("outside", count=str(len(rows)))
    replaced = "".join(rows[first - 1 : last])
    new = edit.new.replace("\r\n", "\n")
    if new and replaced.endswith("\n") and not new.endswith("\n"):
        new += "\n"
    return "".join([*rows[: first - 1], _with_endings(new, replaced, crlf), *rows[last:]])


def _find_spans(text: str, pattern: str) -> list[tuple[int, int]]:
    """Return all matches of a pattern as (start, end), also overlapping ones."""
    compiled = re.compile(pattern)
    found: list[tuple[int, int]] = []
    match = compiled.search(text)
    while match:
        found.append(match.span())
        match = compiled.search(text, match.start() + 1)
    return found


def _find_near(text: str, old: str, new: str) -> tuple[list[tuple[int, int]], str, Near | None]:
    """Find the places that differ little from ``old``. Return their spans; ``new``, adapted to the
    place where there is exactly one; and the kind of difference.
    """
    rows = old.split("\n")
    bare = [row.rstrip(_BLANKS) for row in rows]
    if not any(bare):
        return [], new, None
    end = rf"(?=[{_BLANKS}]*(?:\r?\n|\Z))" if bare[-1] != rows[-1] else ""
    kinds: tuple[tuple[Near, str, list[str]], ...] = (
        ("other_blanks", text, bare),
        ("other_characters", text.translate(_ALIKE), [row.translate(_ALIKE) for row in bare]),
    )
    for how, searched, wanted in kinds:
        spans = _find_spans(searched, rf"[{_BLANKS}]*\r?\n".join(map(re.escape, wanted)) + end)
        if len(spans) == 1:
            return spans, _keep_unchanged_lines(new, rows, text[slice(*spans[0])]), how
        if spans:
            return spans, new, how
    return _find_shifted(text, rows, new)


def _keep_unchanged_lines(
    new: str, old: Sequence[str], found: str, shift: Shift | None = None
) -> str:
    """Return ``new``, in which lines equal to lines of ``old`` are taken from the text ``found`` in
    the file, and other lines are indented by ``shift``.
    """
    stands = found.replace("\r\n", "\n").split("\n")
    written = new.split("\n")
    made: list[str] = []
    blocks = difflib.SequenceMatcher(None, old, written, autojunk=False).get_opcodes()
    for tag, old_from, old_to, new_from, new_to in blocks:
        if tag == "equal":
            made += stands[old_from:old_to]
        else:
            made += (shift.move_row(row) if shift else row for row in written[new_from:new_to])
    return "\n".join(made)


class Shift(NamedTuple):
    """The indentation that lines in the file have more (or, with ``less``, less) than those of the
    edit.
    """

    by: str
    less: bool

    def move_row(self, row: str) -> str:
        """Return a line of the edit with the file's indentation; raises ValueError where it has too
        little to remove. Blank lines are unchanged.
        """
        if not row.strip():
            return row
        if not self.less:
            return self.by + row
        if not row.startswith(self.by):
            raise ValueError(row)
        return row[len(self.by) :]


def _find_shifted(
    text: str, old: Sequence[str], new: str
) -> tuple[list[tuple[int, int]], str, Near | None]:
    """Find whole lines that equal ``old`` except for one shift of indentation on all of them.
    Return their spans; ``new``, shifted where there is exactly one span; and the kind of
    difference, None where nothing fits.
    """
    whole = list(old)
    closed = len(whole) > 1 and not whole[-1].strip()  # old ends with the end of a line
    if closed:
        whole.pop()
    rows = text.split("\n")
    keys = [row.strip().translate(_ALIKE) for row in whole]
    lines = [row.strip().translate(_ALIKE) for row in rows]
    anchor = max(range(len(keys)), key=lambda n: len(keys[n]))
    found: list[tuple[int, Shift]] = []
    for at, line in enumerate(lines):
        first = at - anchor
        if line != keys[anchor] or first < 0 or lines[first : first + len(keys)] != keys:
            continue
        shift = _find_shift(rows[first : first + len(keys)], whole)
        if shift is not None:
            found.append((first, shift))
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row) + 1)
    spans: list[tuple[int, int]] = []
    for first, _ in found:
        last = first + len(keys)
        stop = starts[last] - 1 if not closed else min(starts[last], len(text))
        if not closed and rows[last - 1].endswith("\r"):
            stop -= 1
        spans.append((starts[first], stop))
    if len(found) != 1:
        return spans, new, "other_indentation" if found else None
    try:
        made = _keep_unchanged_lines(new, old, text[slice(*spans[0])], found[0][1])
    except ValueError:
        return [], new, None
    return spans, made, "other_indentation" if found[0][1].by else "other_blanks"


def _find_shift(stands: Sequence[str], old: Sequence[str]) -> Shift | None:
    """Return the shift of indentation between lines of the file and those of the edit; None where
    it is not the same for all.
    """
    shifts: set[Shift] = set()
    for here, there in zip(stands, old, strict=True):
        if not there.strip():
            continue
        ours, theirs = _indentation_of(here), _indentation_of(there)
        if ours.endswith(theirs):
            shifts.add(Shift(ours[: len(ours) - len(theirs)], less=False))
        elif theirs.endswith(ours):
            shifts.add(Shift(theirs[: len(theirs) - len(ours)], less=True))
        else:
            return None
    return shifts.pop() if len(shifts) == 1 else None


def _indentation_of(row: str) -> str:
    """Return the leading blanks of a line."""
    return row[: len(row) - len(row.lstrip(_BLANKS))]


def _describe_nearest(text: str, old: str, sha: str) -> ModelText | None:
    """Return the numbered lines most similar to ``old`` for the model, and the range by which it
    can replace them; None where no line is similar.
    """
    lines = split_bare_lines(text)[:_SEARCHED_LINES]
    wanted = old.strip("\n").split("\n")
    keys = [line.strip() for line in wanted]
    best, score = _best_by_lines([line.strip() for line in lines], keys)
    if score == 0:
        best = _best_by_likeness(lines, max(wanted, key=len).strip(), wanted)
        if best < 0:
            return None
    end = min(len(lines), best + min(len(wanted), _SHOWN_LINES))
    shown = "\n".join(f"{n + 1:>6}  {lines[n][:_LONG_LINE]}" for n in range(best, end))
    is_same = [line.strip() for line in lines[best : best + len(wanted)]] == keys
    offer = f"{best + 1}-{end}@{sha[:_HASH]}" if sha else ""
    return ModelText(
        "edit.nearest_but_for_blanks" if is_same else "edit.nearest",
        {"lines": shown, "range": offer},
    )


def _best_by_lines(lines: list[str], keys: list[str]) -> tuple[int, int]:
    """Return the index where most lines of ``keys`` match in order, and how many; blank lines do
    not count. (-1, 0) for none.
    """
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
    """Return the index where the wanted lines most likely begin, by the line most similar to
    ``key``; -1 where none is similar.
    """
    bare = [line.strip()[:_LONG_LINE] for line in lines]
    like = difflib.get_close_matches(key[:_LONG_LINE], filter(None, bare), n=1)
    if not like:
        return -1
    offset = next((i for i, line in enumerate(wanted) if line.strip() == key), 0)
    return max(0, bare.index(like[0]) - offset)
