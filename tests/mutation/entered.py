"""A pytest plug-in that writes down which functions of the program each test enters.

The program is loaded with a mark at the beginning of each function, which costs next to nothing; a
trace of all that runs took several times as long as the tests.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from collections.abc import Generator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pytest

#: Where the answer goes; only with this variable does the plug-in do anything.
TARGET: Final = "MUTATION_ENTERED"

_PACKAGE: Final = "duckflow_tui"
_ROOT: Final = Path(__file__).parents[2]
_MARK: Final = "mutation_entered"  # what the marks call

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Entered:
    """Tests by their id, without what a parameter adds."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.now: set[str] = set()  # ``path::Class.function``
        self._loaded: dict[str, list[str]] = {}

    def of(self, test: str) -> dict[str, Any]:
        """What is told of a test; ``loaded`` is what was entered while its file was loaded."""
        loaded = self._loaded.get(test.partition("::")[0], [])
        new = {"seconds": 0.0, "passed": True, "entered": [], "loaded": loaded}
        return self.tests.setdefault(test, new)

    def end(self, test: str) -> None:
        """What was entered since the last end belongs to this test."""
        told = self.of(test)
        told["entered"] = sorted(self.now.union(told["entered"]))
        self.now.clear()

    def end_loading(self, file: str) -> None:
        """What was entered since the last end was so while this file was loaded."""
        self._loaded[file] = sorted(self.now)
        self.now.clear()


class _Marks(ast.NodeTransformer):
    """What is defined inside a function counts as the function."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: list[str] = []
        self._function = ""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._marked(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._marked(node)

    def _marked(self, node: _Function) -> ast.AST:
        outer = self._function
        self._function = outer or ".".join((*self._names, node.name))
        self.generic_visit(node)
        mark = ast.parse(f"{_MARK}({f'{self._path}::{self._function}'!r})").body[0]
        node.body.insert(ast.get_docstring(node, clean=False) is not None, mark)
        self._function = outer
        return node


class _Loader(SourceFileLoader):
    """Compiles what it loads with marks, and keeps nothing of it."""

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.path)
        tree = ast.parse(path.read_bytes())
        marked = _Marks(path.relative_to(_ROOT).as_posix()).visit(tree)
        return compile(ast.fix_missing_locations(marked), self.path, "exec", dont_inherit=True)


class _Finder:
    """Finds the modules of the program."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] != _PACKAGE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


_entered = _Entered()
if TARGET in os.environ:
    assert _PACKAGE not in sys.modules, "the program was loaded before its functions were marked"
    setattr(builtins, _MARK, _entered.now.add)
    sys.meta_path.insert(0, _Finder)


def _id(test: str) -> str:
    return test.partition("[")[0]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.nodeid.endswith(".py"):
        _entered.end_loading(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        _entered.end(_id(item.nodeid))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    told = _entered.of(_id(report.nodeid))
    told["seconds"] += report.duration
    told["passed"] = told["passed"] and not report.failed


def pytest_sessionfinish() -> None:
    if (target := os.environ.get(TARGET)) is not None:
        Path(target).write_text(json.dumps(_entered.tests), encoding="utf-8")
