"""Which pictures of the screen are kept, and the text of a picture, which a diff can show."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import pytest
from rich.cells import cell_len
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

Size = tuple[int, int]  # columns and lines
SIZES: Final[tuple[Size, ...]] = ((120, 40), (80, 24), (60, 20))
IDS: Final = ("120x40", "80x24", "60x20")
_ONE: Final = (80, 24)  # where Japanese is looked at in one size only
_CELL: Final = 12.2  # units of a picture that one cell is wide
_PIECE: Final = re.compile(
    r'<text [^>]*\bx="([\d.]+)"[^>]*url\(#terminal-(?:\d+-)?line-(\d+)\)">([^<]*)</text>'
)

#: The sizes of a page that has one state: all in English, one in Japanese.
ONE_STATE: Final = pytest.mark.parametrize(
    ("language", "size"),
    [*(("en", size) for size in SIZES), ("ja", _ONE)],
    ids=[*(f"en-{name}" for name in IDS), "ja-80x24"],
)


def by_name(states: Iterable[Callable[..., object]]) -> dict[str, object]:
    """States that functions build, under the names of the functions."""
    return {build.__name__: build for build in states}


def each_state(
    name: str, states: Mapping[str, object], *, main: Collection[str] = ()
) -> pytest.MarkDecorator:
    """A test's ``language``, ``size`` and ``name``, which is one of the states: all sizes in
    English, one in Japanese, and for the main states all in both.
    """
    return pytest.mark.parametrize(
        ("language", "size", name),
        [
            pytest.param(language, size, state, id=f"{language}-{size[0]}x{size[1]}-{key}")
            for language in ("en", "ja")
            for size in SIZES
            for key, state in states.items()
            if language == "en" or size == _ONE or key in main
        ],
    )


class ScreenText(SingleFileSnapshotExtension):
    """The text of a picture, in a file beside it."""

    _file_extension = "txt"
    _write_mode = WriteMode.TEXT


def text_of(picture: str) -> str:
    """The lines of the screen that an SVG picture shows, without the spaces at their ends."""
    lines: dict[int, str] = {}
    for x, line, text in _PIECE.findall(picture):
        before = lines.get(int(line), "")
        gap = round(float(x) / _CELL) - cell_len(before)
        lines[int(line)] = before + " " * gap + html.unescape(text).replace("\xa0", " ")
    rows = [lines.get(number, "").rstrip() for number in range(max(lines, default=-1) + 1)]
    return "\n".join([*rows, ""])
