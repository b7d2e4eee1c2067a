"""The rooms and who may import whom, checked in the source and in a fresh interpreter."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import duckflow_tui

PACKAGE = Path(duckflow_tui.__file__).parent

#: Room → rooms it may import. ``ui`` may read safe text and whatever the engine shows.
MAY_IMPORT: dict[str, set[str]] = {
    "state": set(),
    "llm": {"state"},
    "prompting": {"state"},
    "safety": {"state"},
    "words": {"state", "safety"},
    "tools": {"state", "safety", "llm"},
    "work": {"state", "llm", "prompting", "safety", "tools"},
    "session": {"state", "llm", "prompting", "safety", "words", "tools", "work"},
    "scripted": {"state", "llm"},
    "manual": set(),
    "ui": {
        "state",
        "llm",
        "prompting",
        "safety",
        "words",
        "tools",
        "work",
        "session",
        "engine",
        "commands",
        "manual",
        "settings",
    },
}
#: Room → what it names in its annotations only, since that one stands above it.
MAY_NAME: dict[str, set[str]] = {"ui": {"sessions"}}


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """A module, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def imports_of(path: Path, *, named_only: bool = False) -> set[str]:
    """What a module imports; ``named_only``: under ``TYPE_CHECKING``, for its annotations."""
    names: set[str] = set()
    tree = tree_of(path)
    for node in _under_type_checking(tree) if named_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _under_type_checking(tree: ast.Module) -> Iterator[ast.AST]:
    for top in tree.body:
        if isinstance(top, ast.If) and ast.unparse(top.test) == "TYPE_CHECKING":
            yield from top.body


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_lies_before_it(room: str) -> None:
    wrong: list[str] = []
    files = list((PACKAGE / room).rglob("*.py"))
    assert files
    for path in files:
        if "workspace" in path.relative_to(PACKAGE).parts:
            continue  # the demo's sample project is data
        source = path.read_text(encoding="utf-8")
        named = imports_of(path, named_only=True)
        for name in imports_of(path):
            parts = name.split(".")
            once = name in named and source.count(f"from {name} import") == 1
            if once and set(parts[1:2]) & MAY_NAME.get(room, set()):
                continue
            if parts[0] != "duckflow_tui" or len(parts) < 2 or parts[1] == room:
                continue
            if parts[1] not in MAY_IMPORT[room] and parts[1] not in ("assets", "places"):
                wrong.append(f"{path.name} imports {name}")
    assert wrong == []


def test_only_the_ui_room_imports_textual() -> None:
    """Covers S4-111."""
    wrong = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "ui"
        and any(name.split(".")[0] == "textual" for name in imports_of(path))
    ]
    assert wrong == []


def loaded_after(code: str) -> set[str]:
    """The names in ``sys.modules`` after the code ran in a fresh interpreter."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_the_engine_runs_without_textual() -> None:
    loaded = loaded_after("import duckflow_tui.compose, duckflow_tui.headless")
    assert "textual" not in loaded


def test_nothing_heavy_is_loaded_before_the_first_frame() -> None:
    loaded = loaded_after("import duckflow_tui.cli, duckflow_tui.ui.first_frame")
    assert not loaded & {"textual", "pydantic", "openai", "httpx2", "rich", "mcp"}
    # Each would take as long as the frame itself.
    assert not loaded & {"typing", "re", "pathlib", "argparse", "tomllib", "platformdirs"}


def test_the_client_library_is_not_loaded_with_the_app() -> None:
    loaded = loaded_after("import duckflow_tui.ui.app, duckflow_tui.compose")
    assert not loaded & {"openai", "httpx2", "mcp", "tree_sitter_bash"}


def test_a_list_page_or_the_demo_does_not_load_the_library_of_servers() -> None:
    """It takes a third of a second, during which no key would act."""
    pages = "duckflow_tui.ui.screens.sources, duckflow_tui.ui.connecting"
    assert not loaded_after(f"import {pages}, duckflow_tui.tools.mcp.servers") & {"mcp", "openai"}


def test_a_session_is_opened_behind_the_first_frame() -> None:
    assert "duckflow_tui.engine" not in loaded_after("import duckflow_tui.sessions")


def test_what_few_sessions_need_is_not_loaded_with_each() -> None:
    loaded = loaded_after(
        "import duckflow_tui.compose, duckflow_tui.ui.app, duckflow_tui.llm.client"
    )
    ours = {name.removeprefix("duckflow_tui.") for name in loaded}
    assert not ours & {"tools.mcp.servers", "tools.mcp.connection", "tools.mcp.schemas"}
    assert not ours & {"work.step", "llm.text_calls", "llm.discovery", "ui.connecting"}
    assert not ours & {"sqlite3", "session.index"}
    pages = {name for name in ours if name.startswith("ui.screens.")}
    # Parts of what stands.
    opened = {"confirm", "list_page", "list_source", "dialog", "pick_list", "session_rows"}
    assert pages <= {f"ui.screens.{name}" for name in opened}


#: Records with more than eight fields: what was typed, set, found or said, a fact each. What works
#: with others is handed them in a few objects.
RECORDS = {
    "Access",
    "AnswerChoice",
    "AppOptions",
    "Command",
    "DiffRow",
    "Fact",
    "FileDiff",
    "Flags",
    "LlmError",
    "Operation",
    "Output",
    "Place",
    "QuestionRow",
    "QuestionSpec",
    "Recording",
    "SessionChoice",
    "Signals",
    "ToolContext",
    "Verdict",
    "_Case",
}


def parameters_of(node: ast.ClassDef) -> int:
    """How many parameters a class is built with, as far as its own body says it."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return len(part.args.posonlyargs + part.args.args + part.args.kwonlyargs) - 1
    if not any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        return 0
    fields = [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    return sum("ClassVar" not in field and "init=False" not in field for field in fields)


def test_no_constructor_has_more_than_eight_parameters() -> None:
    """Settings and words, which are records too, are left out."""
    long: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        if inside.name == "settings.py" or inside.parts[0] == "words":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef) and parameters_of(node) > 8:
                long.add(node.name)
    assert long == RECORDS


def test_a_class_has_its_name_for_itself() -> None:
    """Who reads a name in one room knows what it is in every other."""
    modules: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        if "workspace" in inside.parts:
            continue  # the demo's sample project is data
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules.setdefault(node.name, []).append(inside.as_posix())
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
