"""Decodes files as text and encodes them again; computes line diffs of two versions, hunk
by hunk.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Final

from duckflow_tui.state.base import LocalizedText, ToldError
from duckflow_tui.state.gates import DiffLine, DiffMark, Hunk
from duckflow_tui.state.lines import split_lines, strip_ending

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16 LE, whose mark is its beginning
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

BINARY: Final = LocalizedText(key="diff.fact.binary")
_JAPANESE: Final = ("euc_jp", "cp932")
_KANA: Final = re.compile("[\u3041-\u30ff]")
_HALF_WIDTH: Final = re.compile("[\uff61-\uff9f]")

# Controls that do not occur in text of an old encoding; form feed and escape do.
_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


class NotText(ToldError):
    """Bytes that are not text, or text that an encoding cannot represent."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """The text of a file without its byte order mark, line endings unchanged, and how it is
    encoded.
    """

    text: str
    encoding: str = "utf-8"  # a codec of Python
    mark: bytes = b""  # the byte order mark

    @property
    def has_crlf(self) -> bool:
        """Whether most lines end with CR LF."""
        pairs = self.text.count("\r\n")
        return pairs > self.text.count("\n") - pairs

    @property
    def notable_facts(self) -> tuple[LocalizedText, ...]:
        """Differences from plain UTF-8 text: another encoding, a byte order mark, CR LF, no final
        newline.
        """
        found: list[LocalizedText] = []
        if self.encoding != "utf-8":
            found.append(_name_fact(self.encoding))
        if self.mark:
            found.append(_name_fact("BOM"))
        pairs = self.text.count("\r\n")
        if pairs == self.text.count("\n") > 0:
            found.append(_name_fact("CRLF"))
        elif pairs:
            found.append(LocalizedText(key="diff.fact.mixed_endings"))
        if self.text.count("\r") > pairs:
            found.append(LocalizedText(key="diff.fact.lone_cr"))
        if self.text and not self.text.endswith("\n"):
            found.append(LocalizedText(key="diff.fact.no_final_newline"))
        return tuple(found)

    def encode_text(self, text: str) -> bytes:
        """Encode ``text`` in this file's encoding, with its byte order mark. Raises NotText."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            char = text[error.start]
            character = f"U+{ord(char):04X}"
            raise NotText(
                "no_text.character", character=character, encoding=self.encoding
            ) from None

    def with_endings(self, text: str) -> str:
        """Return ``text`` with CR LF where this file mostly has it; a text that has CR LF already
        is unchanged.
        """
        if self.has_crlf and "\r\n" not in text:
            return text.replace("\n", "\r\n")
        return text


def decode_file(data: bytes) -> TextFile:
    """Decode a file, such that ``encode_text`` of the result gives the same bytes. Raises
    NotText.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode_strictly(data[len(mark) :], encoding, mark)
    if b"\0" in data:
        raise NotText("no_text.binary")
    try:
        return TextFile(data.decode("utf-8"))
    except UnicodeDecodeError:
        return _decode_legacy(data)


def size_words(size: int) -> str:
    """Return a number of bytes in words: ``812 bytes``, ``12 KB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} bytes"
    if size < 1_000_000:
        return f"{round(size / 1000)} KB"
    return f"{size / 1_000_000:.1f} MB"


def _decode_strictly(data: bytes, encoding: str, mark: bytes) -> TextFile:
    """Decode the bytes behind the byte order mark ``mark``. Raises NotText."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise NotText("no_text.begins_like", encoding=encoding) from None
    return TextFile(text, encoding, mark)


def _decode_legacy(data: bytes) -> TextFile:
    """Decode text that is not UTF-8: EUC-JP or CP932 where it has kana, else CP1252. Raises
    NotText.
    """
    if _CONTROLS.search(data):
        raise NotText("no_text.binary")
    for encoding in _JAPANESE:
        text = _round_trip(data, encoding)
        if text is None:
            continue
        kana = len(_KANA.findall(text))
        if kana and kana >= len(_HALF_WIDTH.findall(text)):
            return TextFile(text, encoding)
    text = _round_trip(data, "cp1252")
    if text is None:
        raise NotText("no_text.unknown_encoding")
    return TextFile(text, "cp1252")


def _round_trip(data: bytes, encoding: str) -> str | None:
    """Decode the data; None unless encoding the text again gives the same bytes."""
    try:
        text = data.decode(encoding)
        return text if text.encode(encoding) == data else None
    except UnicodeError:
        return None


CONTEXT: Final = 3  # unchanged lines around a change, at most
#: Most lines of both sides together that are compared: each costs about 500 bytes of memory until
#: the gate.
MAX_COMPARED: Final = 100_000

#: Comparisons that difflib may spend; beyond them a region counts as replaced as a whole. Keeps the
#: diff of any 10,000-line file under 0.15 s.
_WORK: Final = 400_000

#: An opcode of difflib for ``old[a:b]`` and ``new[c:d]``: tag, a, b, c, d.
Region = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The difference between two versions of a file. ``hunks`` is empty where either is not text or
    they have too many lines. ``added`` and ``removed`` are in lines.
    """

    before: bytes | None
    after: bytes | None
    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    facts: tuple[LocalizedText, ...]  # not visible in lines: encoding, line endings, binary
    _old: tuple[str, ...] = ()
    _new: tuple[str, ...] = ()
    _groups: tuple[list[Region], ...] = ()
    _shape: TextFile = TextFile("")

    def apply_hunks(self, taken: Iterable[int]) -> bytes | None:
        """Return the content with only the hunks in ``taken`` applied, counted from 0; all other
        bytes as before.

        All hunks give ``after``, none give ``before``. A diff without hunks always gives ``after``.
        """
        chosen = set(taken)
        if chosen >= set(range(len(self.hunks))):
            return self.after
        if not chosen:
            return self.before
        parts: list[str] = []
        at = 0
        for index, group in enumerate(self._groups):
            if index not in chosen:
                continue
            for tag, a, b, c, d in group:
                if tag != "equal":
                    parts.extend(self._old[at:a])
                    parts.extend(self._new[c:d])
                    at = b
        parts.extend(self._old[at:])
        return self._shape.encode_text("".join(parts))


def compare_files(before: bytes | None, after: bytes | None) -> FileDiff:
    """Return the diff of two contents; None: no file. With more than ``MAX_COMPARED`` lines
    together it has only counts, without hunks.
    """
    gone, come = (before or b"").count(b"\n"), (after or b"").count(b"\n")
    if gone + come > MAX_COMPARED:
        many = LocalizedText(key="diff.fact.many_lines", params={"count": f"{gone + come:,}"})
        return FileDiff(before, after, (), come, gone, (many,))
    try:
        old = decode_file(before) if before is not None else None
        new = decode_file(after) if after is not None else None
    except NotText:
        return FileDiff(before, after, (), 0, 0, (BINARY,))
    shape = old or new or TextFile("")
    same_shape = old is None or new is None or (old.encoding, old.mark) == (new.encoding, new.mark)
    old_lines = split_lines(old.text) if old else ()
    new_lines = split_lines(new.text) if new else ()
    # A file cannot mix two encodings: if they differ, there is a single hunk.
    blocks = _find_equal_blocks(old_lines, new_lines)
    groups = tuple(_group_changes(blocks, whole=not same_shape))
    hunks: list[Hunk] = []
    added = removed = 0
    for group in groups:
        hunks.append(_make_hunk(group, old_lines, new_lines))
        for tag, a, b, c, d in group:
            if tag != "equal":
                added += d - c
                removed += b - a
    return FileDiff(
        before=before,
        after=after,
        hunks=tuple(hunks),
        added=added,
        removed=removed,
        facts=_changed_facts(old, new),
        _old=old_lines,
        _new=new_lines,
        _groups=groups,
        _shape=shape,
    )


def join_hunks(hunks: Iterable[Hunk]) -> Iterator[Hunk]:
    """Yield the hunks as ``diff -u`` has them: adjacent hunks joined to one."""
    joined: Hunk | None = None
    for hunk in hunks:
        if joined is not None and joined.old_end == hunk.old_begin:
            old, new = joined.old_count + hunk.old_count, joined.new_count + hunk.new_count
            joined = Hunk(
                old_start=joined.old_begin + bool(old),
                old_count=old,
                new_start=joined.new_begin + bool(new),
                new_count=new,
                lines=(*joined.lines, *hunk.lines),
            )
            continue
        if joined is not None:
            yield joined
        joined = hunk
    if joined is not None:
        yield joined


def format_hunks(hunks: Iterable[Hunk]) -> list[str]:
    """Return the lines of these hunks as ``diff -u`` writes them, adjacent hunks joined to one."""
    lines: list[str] = []
    for hunk in join_hunks(hunks):
        lines.append(f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@")
        lines += [f"{line.mark}{line.text}" for line in hunk.lines]
    return lines


def _changed_facts(old: TextFile | None, new: TextFile | None) -> tuple[LocalizedText, ...]:
    """Return the notable facts of a file, and of those that change whether they come or go."""
    if old is None or new is None:
        only = old or new
        return only.notable_facts if only else ()
    was, becomes = old.notable_facts, new.notable_facts
    return (
        *(fact for fact in was if fact in becomes),
        *(_mark_fact("gone", fact) for fact in was if fact not in becomes),
        *(_mark_fact("come", fact) for fact in becomes if fact not in was),
    )


def _name_fact(name: str) -> LocalizedText:
    """Return a fact whose name is the same in every language."""
    return LocalizedText(key="diff.fact.named", params={"name": name})


def _mark_fact(change: str, fact: LocalizedText) -> LocalizedText:
    """Return that a fact has ``gone`` or ``come``."""
    return LocalizedText(key=f"diff.fact.{change}", params={**fact.params, "because": fact.key})


def _find_equal_blocks(old: tuple[str, ...], new: tuple[str, ...]) -> list[Match]:
    """Return the blocks of equal lines in order, adjacent ones joined, with an empty block at the
    end.
    """
    top = 0
    limit = min(len(old), len(new))
    while top < limit and old[top] == new[top]:
        top += 1
    bottom = 0
    while bottom < limit - top and old[-1 - bottom] == new[-1 - bottom]:
        bottom += 1
    equal = [(0, 0, top)]
    work = _WORK
    a, c = top, top
    ends = (len(old) - bottom, len(new) - bottom)
    for anchor_a, anchor_c in (*_find_anchors(old, new, top, ends), ends):
        blocks, spent = _find_blocks_between(old[a:anchor_a], new[c:anchor_c], work)
        work -= spent
        for x, y, size in blocks:
            equal.append((a + x, c + y, size))
        if (anchor_a, anchor_c) != ends:
            equal.append((anchor_a, anchor_c, 1))
            a, c = anchor_a + 1, anchor_c + 1
    equal.append((*ends, bottom))
    joined = [Match(0, 0, 0)]
    for x, y, size in equal:
        last = joined[-1]
        if (last.a + last.size, last.b + last.size) == (x, y):
            joined[-1] = Match(last.a, last.b, last.size + size)
        elif size:
            joined.append(Match(x, y, size))
    return [*joined, Match(len(old), len(new), 0)]


def _group_changes(blocks: list[Match], *, whole: bool) -> Iterator[list[Region]]:
    """Yield the changes between equal blocks, each with up to ``CONTEXT`` equal lines before and
    after. Changes with an equal line between them are separate groups, so that either can be
    left out; no line is in two groups. ``whole``: one group with all lines.
    """
    context = blocks[-1].a if whole else CONTEXT
    group: list[Region] = []
    a = c = 0
    for x, y, size in blocks:
        if a < x or c < y:
            tag = "insert" if a == x else "delete" if c == y else "replace"
            group.append((tag, a, x, c, y))
        a, c = x + size, y + size
        if not size:
            continue
        ends = (a, c) == blocks[-1][:2]
        if whole and group and not ends:
            group.append(("equal", x, a, y, c))
            continue
        # Two changes share the equal lines between them as context.
        behind = 0 if not group else min(context, size if ends else (size + 1) // 2)
        if group:
            yield [*group, ("equal", x, x + behind, y, y + behind)]
        ahead = min(context, size - behind)
        group = [("equal", a - ahead, a, c - ahead, c)]
    if group and group[-1][0] != "equal":
        yield group


def _find_anchors(
    old: tuple[str, ...], new: tuple[str, ...], top: int, ends: tuple[int, int]
) -> list[tuple[int, int]]:
    """Return pairs of line indices of lines that are unique in both versions, as many as keep their
    order.

    difflib alone is quadratic in the number of changes; anchors split its work. A short middle has
    none.
    """
    if (ends[0] - top) * (ends[1] - top) <= 10_000:
        return []
    count_old = Counter(old[top : ends[0]])
    count_new = Counter(new[top : ends[1]])
    where = {
        line: y for y, line in enumerate(new[top : ends[1]], start=top) if count_new[line] == 1
    }
    pairs = [
        (x, where[line])
        for x, line in enumerate(old[top : ends[0]], start=top)
        if count_old[line] == 1 and line in where
    ]
    return _longest_rising_run(pairs)


def _longest_rising_run(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs in which the second number rises."""
    tails: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, y) in enumerate(pairs):
        place = bisect_left(tails, y)
        before.append(at[place - 1] if place else -1)
        if place == len(tails):
            tails.append(y)
            at.append(index)
        else:
            tails[place] = y
            at[place] = index
    run: list[tuple[int, int]] = []
    index = at[-1] if at else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    run.reverse()
    return run


def _find_blocks_between(
    old: tuple[str, ...], new: tuple[str, ...], work: int
) -> tuple[list[tuple[int, int, int]], int]:
    """Return the equal blocks of two line lists, as (old, new, size), and the work spent; no blocks
    where that would exceed ``work``.
    """
    if not old or not new:
        return [], 0
    pairs = sum(map(Counter(new).__getitem__, old))
    if not pairs:
        return [], len(old)
    spent = 2 * pairs + len(old) * min(len(old), len(new), pairs)
    if spent > work:
        return [], len(old)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [(m.a, m.b, m.size) for m in matcher.get_matching_blocks() if m.size], spent


def _make_hunk(group: list[Region], old: tuple[str, ...], new: tuple[str, ...]) -> Hunk:
    """Return the hunk of a group of regions, with its lines numbered from 1."""
    lines: list[DiffLine] = []
    for tag, a, b, c, d in group:
        if tag == "equal":
            for x, y in zip(range(a, b), range(c, d), strict=True):
                lines.append(_make_line(" ", x + 1, y + 1, old[x]))
            continue
        for x in range(a, b):
            lines.append(_make_line("-", x + 1, None, old[x]))
        for y in range(c, d):
            lines.append(_make_line("+", None, y + 1, new[y]))
    first_old, last_old = group[0][1], group[-1][2]
    first_new, last_new = group[0][3], group[-1][4]
    return Hunk(
        old_start=first_old + 1 if last_old > first_old else first_old,
        old_count=last_old - first_old,
        new_start=first_new + 1 if last_new > first_new else first_new,
        new_count=last_new - first_new,
        lines=tuple(lines),
    )


def _make_line(mark: DiffMark, old: int | None, new: int | None, text: str) -> DiffLine:
    """Return a line of a diff, without its line ending."""
    return DiffLine(mark=mark, old=old, new=new, text=strip_ending(text))
