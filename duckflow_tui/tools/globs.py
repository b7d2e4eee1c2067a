"""File globs, matched the same way when finding files and when searching in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Final

MAX_PATTERN: Final = 1_000  # characters of a glob, and of a line of an ignore file
MAX_ALTERNATIVES: Final = 200  # that the braces of one glob may expand to
#: Lines compiled into one RE2 matcher, whose 8 MB hold about 1,000 with two wildcards each.
_LINES_PER_MATCHER: Final = 500
_WILD: Final = re.compile(r"[*?\[{\\]")
_INVALID_ESCAPE: Final = re.compile(r"\\(?![\[\]{},|!#\\ ])")
#: Brackets or braces, which also occur in file names: Next.js has ``[id].tsx``.
_BRACKETS_OR_BRACES: Final = re.compile(r"\[|\{[^{},]*\}")
#: A backslash with its character, or a class of characters.
_LITERAL: Final = re.compile(r"\\.|\[[!^]?.[^\]]*\]")
_GROUP: Final = re.compile(r"\{([^{}]*)\}")  # innermost braces
_RANGE: Final = re.compile(r"\{-?\w+\.\.-?\w+(?:\.\.-?\d+)?\}")


class Patterns:
    """The patterns of an ignore file. Matching takes time linear in the length of a path, because
    RE2 does not backtrack. The constructor raises ValueError for an invalid line.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        from pathspec import GitIgnoreSpec  # costs 3 MB of memory, so not at start
        from re2 import error as Re2Error  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

        starts = range(0, len(lines), _LINES_PER_MATCHER)
        parts = [lines[start : start + _LINES_PER_MATCHER] for start in starts]
        try:
            made = [GitIgnoreSpec.from_lines(part, backend="re2") for part in parts]
        except Re2Error as error:  # pyright: ignore[reportUnknownVariableType]
            raise ValueError("too large") from error
        self._parts = made[::-1]  # the last matching line decides

    def include(self, path: str) -> bool | None:
        """Return True if the last line that matches ignores the path, False if it re-includes it,
        None where no line matches. A directory ends with ``/``.
        """
        text = path.encode("utf-8", "replace").decode()  # replaces surrogates
        found = (part.check_file(text).include for part in self._parts)
        return next((said for said in found if said is not None), None)


class FileGlob:
    """A glob as in a shell, with ``**`` and braces; a leading ``!`` means all other files.

    Leading folders without a wildcard, also ``./``, ``../``, ``~/`` and ``/``, are a path:
    ``folder_in`` joins them to the folder that is searched, and the rest is matched against paths
    below that. A rest without a slash matches at any depth; a matched directory includes everything
    in it. Brackets and braces also match literally, as in ``[id].tsx``. The constructor raises
    ValueError with a sentence for a glob that is not valid.
    """

    def __init__(self, glob: str) -> None:
        self.negated = glob.startswith("!")
        text = glob.removeprefix("!")
        if not text.strip():
            raise ValueError("it is empty")
        if "\0" in text:
            raise ValueError("it cannot hold a NUL character")
        if _INVALID_ESCAPE.search(text):
            raise ValueError(
                "folders are separated by /, and a backslash stands only before [ ] { } , | ! # "
                "or a space"
            )
        self._folder, rest, anchored = ("", text, False) if self.negated else _split_folder(text)
        alternatives = list(dict.fromkeys(_expand_braces(rest)))
        if _BRACKETS_OR_BRACES.search(rest) and "\\" not in rest:
            alternatives.append(re.sub(r"([\[\]])", r"\\\1", rest))
        names = [_split_names(one, anchored) for one in alternatives]
        try:
            self._patterns = Patterns([_ignore_line(*one) for one in names])
        except ValueError as error:
            raise ValueError("a bracket in it is not closed, or it is too large") from error

    def folder_in(self, path: str) -> str:
        """Return the folder to search: ``path`` joined with the leading folders of the glob."""
        if self._folder.startswith(("/", "~")):
            return self._folder
        return os.path.join(path, self._folder) if self._folder else path

    def fits(self, path: str) -> bool:
        """Whether the glob matches a file; ``path`` is relative to the folder of ``folder_in``."""
        return bool(self._patterns.include(path)) is not self.negated


def _split_folder(glob: str) -> tuple[str, str, bool]:
    """Return the leading folders without wildcards, the rest, and whether there are such
    folders.
    """
    parts = glob.split("/")
    count = 0
    while count < len(parts) - 1 and not _WILD.search(parts[count]):
        count += 1
    folder = "/".join(parts[:count]) or ("/" if count else "")
    return folder, "/".join(parts[count:]) or "*", count > 0


def _split_names(glob: str, anchored: bool) -> tuple[list[str], bool, bool]:
    """Return the components of a glob without braces, whether it is anchored to the searched
    folder, and whether it matches directories only. Raises ValueError.
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


def _ignore_line(names: list[str], anchored: bool, folders: bool) -> str:
    """Return the equivalent line of an ignore file."""
    text = "/".join(names)
    if anchored:
        text = f"/{text}"
    elif text[0] in "!#":
        text = f"\\{text}"
    if text.endswith(" ") and not text.endswith("\\ "):
        text = f"{text[:-1]}\\ "
    return f"{text}/" if folders else text


#: Signs that no glob has once its braces are expanded, and the reason why it is refused.
_SEPARATED: Final = (
    "alternatives stand in braces, such as {*.py,*.ts}; a comma or | in a name is "
    "written behind a backslash"
)
_LEFT: Final = {
    "{": "a brace is not closed; write { as [{]",
    "}": "a brace is closed that was not opened; write } as [}]",
    ",": _SEPARATED,
    "|": _SEPARATED,
}


def _expand_braces(glob: str) -> Iterator[str]:
    """Yield the globs that the braces of a glob expand to. Raises ValueError for a range or
    unbalanced braces, for a comma or bar outside of braces, and for too many results.
    """
    if _RANGE.search(glob):
        raise ValueError("a range in braces is not understood; write its values: {1,2,3}")
    literals: list[str] = []

    def hide_literal(match: re.Match[str]) -> str:
        """Note a literal, and return the mark that stands for it."""
        literals.append(match[0])
        return f"\0{len(literals) - 1}\0"

    pending, made = [_LITERAL.sub(hide_literal, glob)], list[str]()
    while pending:
        text = pending.pop(0)
        if (group := _GROUP.search(text)) is None:
            made.append(text)
        else:
            head, tail = text[: group.start()], text[group.end() :]
            pending += [f"{head}{part}{tail}" for part in group[1].split(",")]
        if len(made) + len(pending) > MAX_ALTERNATIVES:
            raise ValueError(f"its braces give more than {MAX_ALTERNATIVES} alternatives")
    for text in made:
        for sign, problem in _LEFT.items():
            if sign in text:
                raise ValueError(problem)
        yield re.sub(r"\0(\d+)\0", lambda mark: literals[int(mark[1])], text)
