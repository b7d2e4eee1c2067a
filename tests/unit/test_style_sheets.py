"""The style sheets name widgets by their classes, which nothing else checks: a sheet whose class
has another name now styles nothing, in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

from textual.dom import DOMNode

from duckflow_tui import ui
from duckflow_tui.places import find_assets

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_TYPE = re.compile(r"(?<![\w#.:$-])[A-Z]\w*")


def named_in(sheet: Path) -> set[str]:
    """The types in the selectors of a sheet, those of nested rules too."""
    text = _COMMENT.sub("", sheet.read_text(encoding="utf-8"))
    before_braces = re.findall(r"([^{};]*)\{", text)
    return {name for selector in before_braces for name in _TYPE.findall(selector)}


def widgets() -> Iterator[type[DOMNode]]:
    """Every class that can be styled, once all modules of the room are imported."""
    for module in walk_packages(ui.__path__, f"{ui.__name__}."):
        import_module(module.name)
    waiting: list[type[DOMNode]] = [DOMNode]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            yield kind


def test_every_type_in_a_style_sheet_is_a_widget_that_there_is() -> None:
    sheets = sorted(find_assets("styles").glob("*.tcss"))
    assert sheets
    there = {kind.__name__ for kind in widgets()}
    gone = {sheet.name: named_in(sheet) - there for sheet in sheets}
    assert {sheet: names for sheet, names in gone.items() if names} == {}
