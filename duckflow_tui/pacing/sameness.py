"""When two calls are the same, however they are spelled: in paths, blanks and line ends."""

from __future__ import annotations

import posixpath
import re
from typing import Any, Final, cast

from duckflow_tui.state.base import canonical_json, digest
from duckflow_tui.state.messages import OperationMessage

_PATHS: Final = ("path", "source", "target")
_SLASHES: Final = re.compile(r"/{2,}")


def call_key(message: OperationMessage) -> str:
    """The same for calls that ask for the same."""
    args = {name: _plain(name, value) for name, value in message.args.items()}
    if path := read_place(message):
        args["path"] = path
    return digest(canonical_json([message.operation, args]))


def result_key(message: OperationMessage) -> str:
    """The same for calls of one operation that answered the same."""
    return digest(canonical_json([message.operation, message.result.text]))


def read_place(message: OperationMessage) -> str:
    """What a call with a path is about; empty for a call without one.

    A file that was read is named by the first line of the result, wherever the path led to it.
    """
    path = message.args.get("path")
    if not isinstance(path, str) or not path.strip():
        return ""
    plain = _spelled(path)
    head = message.result.text.partition("\n")[0]
    found = head[1:].partition(": ")[0] if head.startswith("[") else ""
    same = found and posixpath.basename(_spelled(found)) == posixpath.basename(plain)
    return _spelled(found) if same else plain


def only_blanks(message: OperationMessage) -> bool:
    """Whether the changes are in blanks at the end of lines and in empty lines alone."""
    previews = message.gate.previews if message.gate is not None else message.previews
    hunks = [hunk for preview in previews for hunk in preview.hunks]
    if not hunks or any(preview.kind != "modify" for preview in previews):
        return False
    for hunk in hunks:
        old, new = (
            [text for line in hunk.lines if line.mark == mark and (text := line.text.rstrip())]
            for mark in ("-", "+")
        )
        if old != new:
            return False
    return True


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(name, inner) for inner in cast("list[Any]", value)]
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {key: _plain(key, inner) for key, inner in inside.items()}
    if not isinstance(value, str):
        return value
    if name in _PATHS:
        return _spelled(value)
    if name == "command":
        return " ".join(value.split())
    return "\n".join(line.rstrip() for line in value.rstrip().split("\n"))


def _spelled(path: str) -> str:
    """A path without detours: ``./a//b/`` is ``a/b``."""
    path = _SLASHES.sub("/", path.strip())
    return posixpath.normpath(path) if path else ""
