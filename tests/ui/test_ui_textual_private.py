"""What is used of Textual that it keeps to itself: the first to fail with another Textual."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from textual._compositor import Compositor
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.widgets import TextArea

from duckflow_tui import ui
from duckflow_tui.ui import textual_private

HERE = Path(ui.__file__).parent
PRIVATE = Path(textual_private.__file__)


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (App[None], ("_filters", "_driver", "_exit_renderables", "_close_messages_no_wait")),
        (App[None], ("_fatal_error", "_display")),
        (
            XTermParser,
            ("_sequence_to_key_events", "terminal_size", "terminal_pixel_size", "mouse_pixels"),
        ),
        (
            lambda: LinuxDriver(App[None]()),
            ("_app", "_loop", "_auto_restart", "_sigcont_application"),
        ),
        (TextArea, ("_bindings", "_parent", "_theme")),
        (Screen[None], ("_compositor",)),
        (Compositor, ("_dirty_regions", "_get_renders", "visible_widgets")),
    ],
)
async def test_textual_has_each_name(made: Callable[[], object], names: tuple[str, ...]) -> None:
    thing = made()
    for name in names:
        assert hasattr(thing, name), name


@pytest.mark.parametrize(
    ("kind", "name", "parameters"),
    [
        (App[None], "_fatal_error", ["self"]),
        (App[None], "_close_messages_no_wait", ["self"]),
        (App[None], "_display", ["self", "screen", "renderable"]),
        (LinuxDriver, "_sigcont_application", ["self", "_"]),
        (XTermParser, "_sequence_to_key_events", ["self", "sequence", "alt"]),
        (Compositor, "render_partial_update", ["self"]),
        (Compositor, "_get_renders", ["self", "crop"]),
    ],
)
def test_what_is_called_or_replaced_takes_the_same(
    kind: type[object], name: str, parameters: list[str]
) -> None:
    assert list(inspect.signature(getattr(kind, name)).parameters) == parameters


def test_only_one_module_uses_them() -> None:
    """Nor has any widget of ours a private name that Textual has for something else."""
    for path in HERE.rglob("*.py"):
        if path == PRIVATE:
            continue
        source = path.read_text(encoding="utf-8")
        assert "from textual._" not in source, path
        found = [
            f"{kind.name}.{name}"
            for kind in ast.walk(ast.parse(source))
            if isinstance(kind, ast.ClassDef)
            for name in private_names(kind) & names_of_textual(class_of(path, kind.name))
        ]
        assert not found, path


def class_of(path: Path, name: str) -> type[object]:
    """The class of that name in that module of ours."""
    module = ".".join(path.relative_to(HERE.parents[1]).with_suffix("").parts)
    return getattr(import_module(module), name, object)


def private_names(tree: ast.AST) -> set[str]:
    """The names with one underscore that a class defines, sets or looks up on itself."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "super()"):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def names_of_textual(kind: type[object]) -> set[str]:
    """All names that the classes of Textual above this one have."""
    return {name for base in textual_bases(kind) for name in names_in(base)}


@cache
def names_in(base: type[object]) -> frozenset[str]:
    """The names that one class of Textual defines or uses."""
    return frozenset(vars(base)) | private_names(tree_of(base))


def textual_bases(kind: type[Any]) -> Iterator[type[Any]]:
    """Those of its bases that Textual defines."""
    return (base for base in kind.__mro__ if base.__module__.split(".")[0] == "textual")


def tree_of(kind: type[Any]) -> ast.AST:
    """Its source."""
    return classes_of(kind.__module__)[kind.__qualname__]


@cache
def classes_of(module: str) -> dict[str, ast.AST]:
    """The classes of a module, those within others and within functions too."""
    found: dict[str, ast.AST] = {}

    def look(tree: ast.AST, above: str) -> None:
        for node in ast.iter_child_nodes(tree):
            below = above
            if isinstance(node, ast.ClassDef):
                found[f"{above}{node.name}"] = node
                below = f"{above}{node.name}."
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                below = f"{above}{node.name}.<locals>."
            look(node, below)

    look(ast.parse(inspect.getsource(import_module(module))), "")
    return found
