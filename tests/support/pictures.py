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
LARGE: Final[Size] = (200, 60)
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
    name: str,
    states: Mapping[str, object],
    *,
    main: Collection[str] = (),
) -> pytest.MarkDecorator:
    """A test's ``language``, ``size`` and ``name``, which is one of the states: all sizes in
    English, one in Japanese, for the main states all in both.
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


_CLASS: Final = re.compile(r"\.terminal-(?:\d+-)?(r\d+) \{ fill: (#[0-9a-f]{6})")
_GROUND: Final = re.compile(
    r'<rect fill="(#[0-9a-f]{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"'
)
_INKED: Final = re.compile(
    r'<text class="terminal-(?:\d+-)?(r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>'
)
_ROW: Final = 24.4  # units of a picture that one line is high


def inks_of(picture: str) -> list[tuple[str, str, str]]:
    """What is written on a screen: each text with letters or digits, its colour, its ground."""
    colours = dict(_CLASS.findall(picture))
    grounds: dict[int, list[tuple[float, float, str]]] = {}
    for colour, x, y, width in _GROUND.findall(picture):
        line = round((float(y) - 1.5) / _ROW)
        grounds.setdefault(line, []).append((float(x), float(x) + float(width), colour))
    found: list[tuple[str, str, str]] = []
    for name, x, y, raw in _INKED.findall(picture):
        text = html.unescape(raw).replace("\xa0", " ").strip()
        if not any(map(str.isalnum, text)):
            continue
        at, line = float(x) + 1, round((float(y) - 20) / _ROW)
        under = [colour for left, right, colour in grounds.get(line, []) if left <= at < right]
        if under:
            found.append((text, colours[name], under[-1]))
    return found


def contrast(one: str, other: str) -> float:
    """How far two colours stand apart, 1 to 21: the ratio of WCAG 2, of their luminances."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
