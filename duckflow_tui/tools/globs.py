"""Globs of file names: read once, the same for finding and for searching with any program."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

MAX_PATTERN: Final = 1_000  # characters of a glob, and of a line of an ignore file
MAX_ALTERNATIVES: Final = 200  # that braces may give
#: Lines that RE2 takes together: 8 MB of its memory hold 1,000 with two wildcards each.
_LINES_AT_ONCE: Final = 500
_WILD: Final = re.compile(r"[*?\[{\\]")
_STRANGE_ESCAPE: Final = re.compile(r"\\(?![\[\]{},|!#\\ ])")
#: Signs of a glob that names of files hold, too: Next.js has ``[id].tsx``.
_AS_WRITTEN: Final = re.compile(r"\[|\{[^{},]*\}")
_RANGE: Final = re.compile(r"\{-?\w+\.\.-?\w+(?:\.\.-?\d+)?\}")
#: A name or wildcards that ripgrep reads exactly as an ignore file does.
_PLAIN: Final = re.compile(r"(?=.*[^*?])(?!.*\*\*)[\w.*?-]+")


class Patterns:
    """Lines of an ignore file. Whatever they are, one name takes a time that grows with its length
    and no faster: RE2 matches without going back. Raises ValueError for a line that is no pattern.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        from pathspec import GitIgnoreSpec  # 3 MB of memory, which a start does without
        from re2 import error as Re2Error  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

        starts = range(0, len(lines), _LINES_AT_ONCE)
        parts = [lines[start : start + _LINES_AT_ONCE] for start in starts]
        try:
            made = [GitIgnoreSpec.from_lines(part, backend="re2") for part in parts]
        except Re2Error as error:  # pyright: ignore[reportUnknownVariableType]
            raise ValueError("too large") from error
        self._parts = made[::-1]  # the last line that fits decides

    def include(self, path: str) -> bool | None:
        """Whether the path is meant, with ``/`` behind a directory; None where no line fits."""
        text = path.encode("utf-8", "replace").decode()  # a name may be no text
        found = (part.check_file(text).include for part in self._parts)
        return next((said for said in found if said is not None), None)


class FileGlob:
    """A glob as a shell writes it, with ``**`` and braces; a leading ``!`` means all other files.

    Its leading folders that hold no wildcard, and ``./``, ``../``, ``~/`` and ``/``, are a path:
    ``folder_in`` joins them to the folder that is searched. The rest is compared with paths below
    that. Without a slash it fits at any depth, and a directory that it names is meant with all it
    holds. A name in brackets or braces fits as it is written, too: ``[id].tsx``. Raises ValueError
    with a sentence for a glob that cannot be understood.
    """

    def __init__(self, glob: str) -> None:
        self.negated = glob.startswith("!")
        text = glob.removeprefix("!")
        if not text.strip():
            raise ValueError("it is empty")
        if "\0" in text:
            raise ValueError("it cannot hold a NUL character")
        if _STRANGE_ESCAPE.search(text):
            raise ValueError(
                "folders are separated by /, and a backslash stands only before [ ] { } , | ! # "
                "or a space"
            )
        if _outside_braces(text):
            raise ValueError(
                "alternatives stand in braces, such as {*.py,*.ts}; a comma or | in a name is "
                "written behind a backslash"
            )
        self._folder, rest, anchored = ("", text, False) if self.negated else _split(text)
        alternatives = list(dict.fromkeys(_expanded(rest)))
        if _AS_WRITTEN.search(rest) and "\\" not in rest:
            alternatives.append(re.sub(r"([\[\]])", r"\\\1", rest))
        self._names = [_names_of(one, anchored) for one in alternatives]
        try:
            self._patterns = Patterns([_line(*one) for one in self._names])
        except ValueError as error:
            raise ValueError("a bracket in it is not closed, or it is too large") from error

    def folder_in(self, path: str) -> str:
        """The path of the folder in which files are compared, where ``path`` was to be searched."""
        if self._folder.startswith(("/", "~")):
            return self._folder
        return os.path.join(path, self._folder) if self._folder else path

    def fits(self, path: str) -> bool:
        """Whether a file is meant; ``path`` is relative to the folder of ``folder_in``."""
        return bool(self._patterns.include(path)) is not self.negated

    def rough_names(self) -> list[str] | None:
        """Globs for ripgrep that let through at least each file that fits, since ripgrep reads
        other globs in its own way; None where there are none.
        """
        last = [names[-1] for names, _, _ in self._names]
        if self.negated or not all(map(_PLAIN.fullmatch, last)):
            return None
        return [glob for name in last for glob in (name, f"**/{name}/**")]


def _split(glob: str) -> tuple[str, str, bool]:
    """The leading folders without wildcards, the rest, and whether that begins at the folder."""
    parts = glob.split("/")
    count = 0
    while count < len(parts) - 1 and not _WILD.search(parts[count]):
        count += 1
    folder = "/".join(parts[:count]) or ("/" if count else "")
    return folder, "/".join(parts[count:]) or "*", count > 0


def _names_of(glob: str, anchored: bool) -> tuple[list[str], bool, bool]:
    """The names of a glob without braces, whether it begins at the folder, and whether it means
    directories only.
    """
    if glob.startswith(("/", "~/")):
        raise ValueError("an absolute path stands in braces or behind !; write it as path")
    parts = glob.split("/")
    names = [part for part in parts if part not in ("", ".")]
    if ".." in names:
        raise ValueError(".. stands behind a wildcard, in braces or behind !; write it as path")
    if not names:
        raise ValueError("it names nothing")
    return names, anchored or len(names) > 1 or parts[0] == ".", not parts[-1]


def _line(names: list[str], anchored: bool, folders: bool) -> str:
    """The line of an ignore file that means the same."""
    text = "/".join(names)
    if anchored:
        text = f"/{text}"
    elif text[0] in "!#":
        text = f"\\{text}"
    if text.endswith(" ") and not text.endswith("\\ "):
        text = f"{text[:-1]}\\ "
    return f"{text}/" if folders else text


def _expanded(glob: str) -> Iterator[str]:
    """Each alternative that the braces of a glob give, nested ones too."""
    if _RANGE.search(glob):
        raise ValueError("a range in braces is not understood; write its values: {1,2,3}")
    pending, made = [glob], 0
    while pending:
        text = pending.pop(0)
        opened = _outside_brackets(text, "{")
        if not opened:
            if _outside_brackets(text, "}"):
                raise ValueError("a brace is closed that was not opened; write } as [}]")
            made += 1
            yield text
            continue
        # The innermost of the first group is taken first: what stands in it is no group.
        closing = next((at for at in _outside_brackets(text, "}") if at > opened[0]), None)
        if closing is None:
            raise ValueError("a brace is not closed; write { as [{]")
        start = max(at for at in opened if at < closing)
        commas = [at for at in _outside_brackets(text, ",") if start < at < closing]
        edges = [start, *commas, closing]
        head, tail = text[:start], text[closing + 1 :]
        for begin, end in pairwise(edges):
            pending.append(f"{head}{text[begin + 1 : end]}{tail}")
        if made + len(pending) > MAX_ALTERNATIVES:
            raise ValueError(f"its braces give more than {MAX_ALTERNATIVES} alternatives")


def _outside_braces(text: str) -> bool:
    """Whether the glob holds a comma or a bar that separates nothing."""
    opened, closed = _outside_brackets(text, "{"), _outside_brackets(text, "}")
    for comma in _outside_brackets(text, ","):
        if sum(at < comma for at in opened) <= sum(at < comma for at in closed):
            return True
    return bool(_outside_brackets(text, "|"))


def _outside_brackets(text: str, sign: str) -> list[int]:
    """Where a sign stands that is neither escaped nor in a class of characters."""
    found: list[int] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == "[":
            end = text.find("]", at + 2 + (text[at + 1 : at + 2] in ("!", "^")))
            at = end if end > 0 else at
        elif text[at] == sign:
            found.append(at)
        at += 1
    return found
