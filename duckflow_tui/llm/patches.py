"""Parses patches that models write instead of edits: ``*** Begin Patch``, unified diffs, and blocks
between ``SEARCH`` and ``REPLACE``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, cast

from duckflow_tui.llm.foreign_calls import FOREIGN_NAMES, TextCall, bare_name
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.lines import split_bare_lines

EDIT, WRITE, DELETE = "file_ops.edit_file", "file_ops.write_file", "file_ops.delete_file"
BEGIN_PATCH: Final = "*** Begin Patch"

_END: Final = re.compile(r"^\*\*\* End Patch", re.M)
_FILE: Final = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.+)$", re.M)
_DIFF_FILE: Final = re.compile(r"^--- (\S[^\n\t]*+)[^\n]*+\n\+\+\+ (\S[^\n\t]*+)[^\n]*+\n", re.M)
#: Lines of a diff between two files.
_DIFF_HEADS: Final = (
    "diff --git ",
    "index ",
    "new file mode ",
    "deleted file mode ",
    "\\ No newline",
)
_SEARCH: Final = re.compile(r"(?:<{5,9}|-{5,9}) ?SEARCH>?\s*")
_MIDDLE: Final = re.compile(r"={5,9}\s*")
_REPLACE: Final = re.compile(r"(?:>{5,9}|\+{5,9}) ?REPLACE\s*")
#: A line that says where a block of SEARCH belongs: it is found by its text.
_PLACE: Final = re.compile(r":(?:start|end)_line:.*|-{5,9}\s*")
_PATH: Final = re.compile(r"[*#`\s]*([^\s*`:][^\n*`:]{0,300}?)[*`:\s]*")

_FENCES: Final = ("```", "~~~")
_PATCH_TOOLS: Final = ("applypatch", "patch")
_PATCH_ARGUMENTS: Final = (
    "input",
    "patch",
    "diff",
    "patch_text",
    "patchText",
    "changes",
    "content",
)
_PATH_ARGUMENTS: Final = ("path", "file_path", "filePath", "target_file")


def read_patch_call(name: str, args: JsonObject) -> list[TextCall]:
    """Return the file changes of a call to ``apply_patch`` of other tools, or of an edit that
    contains a diff; empty for other or ambiguous calls.
    """
    tool = bare_name(name)
    texts = [args[key] for key in _PATCH_ARGUMENTS if isinstance(args.get(key), str)]
    if FOREIGN_NAMES.get(tool) == "shell.run":
        command: object = args.get("command", args.get("cmd"))
        words = cast("list[object]", command) if isinstance(command, list) else [command]
        line = " ".join(map(str, words))
        texts = [line] if "apply_patch" in line.split(BEGIN_PATCH)[0] else []
    elif tool not in _PATCH_TOOLS and FOREIGN_NAMES.get(tool) != EDIT:
        return []
    paths = [args[key] for key in _PATH_ARGUMENTS if isinstance(args.get(key), str)]
    return read_patch(texts[0], paths[0] if paths else "") if len(texts) == 1 else []


def read_patch(text: str, path: str = "") -> list[TextCall]:
    """Parse a patch into one change per file, in order. ``path``: the file if the patch names none.
    Empty if the text is not a patch, or a change has no place.
    """
    if (begin := text.find(BEGIN_PATCH)) >= 0:
        end = _END.search(text, begin)
        body = text[begin : end.start()] if end else ""
        parts = [(head[1], head[2].strip(), part) for head, part in _split_files(_FILE, body)]
    elif heads := _split_files(_DIFF_FILE, text):
        parts = [(*_name_change(head), part) for head, part in heads]
    elif path and re.search(r"^@@", text, re.M):
        parts = [("Update", path, text)]
    else:
        return _read_blocks(split_bare_lines(text), path)
    changes = [_read_change(kind, name, split_bare_lines(body)) for kind, name, body in parts]
    found = [change for change in changes if change is not None]
    return found if len(found) == len(changes) else []


def _split_files(head: re.Pattern[str], text: str) -> list[tuple[re.Match[str], str]]:
    """Split a patch at the headers of its files; return each header with the text up to
    the next.
    """
    heads = [*head.finditer(text)]
    ends = [after.start() for after in heads[1:]] + [len(text)]
    return [
        (found, text[found.end() : end].removeprefix("\n"))
        for found, end in zip(heads, ends, strict=False)
    ]


def _name_change(head: re.Match[str]) -> tuple[str, str]:
    """Return the kind of a change in a diff (Add, Update, Delete) and the path of its file."""
    old, new = head[1].strip().removeprefix("a/"), head[2].strip().removeprefix("b/")
    if old == "/dev/null":
        return "Add", new
    return ("Delete", old) if new == "/dev/null" else ("Update", new)


def _read_change(kind: str, path: str, lines: Sequence[str]) -> TextCall | None:
    """Convert the change of one file to a call; None if it is malformed or has no place in the
    file.
    """
    if kind == "Delete":
        return TextCall(DELETE, {"path": path})
    lines = [line for line in lines if not line.startswith(_DIFF_HEADS)]
    if kind == "Add":
        added = [line for line in lines if not line.startswith("@@")]
        while added and not added[-1]:
            added.pop()
        if any(line and not line.startswith("+") for line in added):
            return None
        return TextCall(
            WRITE, {"path": path, "content": "".join(f"{line[1:]}\n" for line in added)}
        )
    edits: list[JsonObject] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, "@@"]:
        if line.startswith("@@"):
            if old and old != new:
                edits.append({"old": "\n".join(old), "new": "\n".join(new)})
            elif new != old:
                return None  # its place in the file is unknown
            old, new = [], []
        elif line.startswith("*** "):
            if not line.startswith("*** End of File"):
                return None
        else:
            sign, rest = line[:1], line[1:]
            if sign not in ("", " ", "+", "-"):
                return None
            if sign != "+":
                old.append(rest)
            if sign != "-":
                new.append(rest)
    return TextCall(EDIT, {"path": path, "edits": edits}) if edits else None


def split_blocks(text: str) -> tuple[str, str]:
    """Split a text before the SEARCH/REPLACE blocks at its end, including the path and fence of the
    first. The second part is empty if there are none.
    """
    lines = split_bare_lines(text) if "SEARCH" in text else []
    first, is_inside = -1, False
    behind: list[str] = []  # lines after the last block
    for at, line in enumerate(lines):
        if is_inside:
            is_inside = not _REPLACE.fullmatch(line)
        elif _SEARCH.fullmatch(line):
            first = first if first >= 0 and all(_find_path([name]) for name in behind) else at
            is_inside = True
            behind.clear()
        elif first >= 0 and line.strip() and not line.startswith(_FENCES):
            behind.append(line)
    if first < 0 or behind or not any(map(_MIDDLE.fullmatch, lines[first:])):
        return text, ""
    while first and (lines[first - 1].startswith(_FENCES) or _find_path(lines[:first][-1:])):
        first -= 1
    return "\n".join(lines[:first]).strip(), "\n".join(lines[first:])


def _read_blocks(lines: Sequence[str], path: str) -> list[TextCall]:
    """Convert SEARCH/REPLACE blocks to edits by file; a block with nothing to search writes a new
    file. Empty if a block is cut off or has no path.
    """
    edits: dict[str, list[JsonObject]] = {}
    written: list[TextCall] = []
    parts: list[list[str]] = []  # the text to search for, that to put in its place
    for at, line in enumerate(lines):
        if _SEARCH.fullmatch(line):
            if parts:
                return []
            path = _find_path(lines[:at]) or path
            parts = [[]]
        elif len(parts) == 1 and _MIDDLE.fullmatch(line):
            parts.append([])
        elif len(parts) == 2 and _REPLACE.fullmatch(line):
            old, new = ("\n".join(part) for part in parts)
            if not path:
                return []
            if old:
                edits.setdefault(path, []).append({"old": old, "new": new})
            else:
                written.append(TextCall(WRITE, {"path": path, "content": f"{new}\n"}))
            parts = []
        elif parts and not (parts == [[]] and _PLACE.fullmatch(line)):
            parts[-1].append(line)
    if parts:
        return []  # it is cut off
    changed = [TextCall(EDIT, {"path": name, "edits": made}) for name, made in edits.items()]
    return written + changed


def _find_path(lines: Sequence[str]) -> str:
    """Return the path on the line before a block or its fence; empty if there is none."""
    for line in reversed(lines[-3:]):
        if line.strip() and not line.lstrip().startswith(_FENCES):
            found = _PATH.fullmatch(line)
            name = found[1] if found else ""
            return name if " " not in name and re.search(r"[./]", name) else ""
    return ""
