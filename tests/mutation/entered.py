"""A pytest plug-in that writes down which functions of the program each test enters."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import pytest

#: Where the answer goes; only with this variable does the plug-in do anything.
TARGET: Final = "MUTATION_ENTERED"

_ROOT: Final = str(Path(__file__).parents[2] / "duckflow_tui") + os.sep


class _Entered:
    """Tests by their id, without what a parameter adds."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self.now: set[CodeType] = set()

    def trace(self, frame: FrameType, event: str, arg: object) -> None:
        """Hear of every function that begins, and of none of its lines."""
        self.now.add(frame.f_code)

    def end(self, test: str) -> None:
        """What was entered since the last end belongs to this test."""
        told = self.tests.setdefault(test, {"seconds": 0.0, "passed": True, "entered": []})
        codes, self.now = self.now.copy(), set()  # a thread may still add to the old one
        names = {_named(code) for code in codes if code.co_filename.startswith(_ROOT)}
        told["entered"] = sorted(names.union(told["entered"]))


def _named(code: CodeType) -> str:
    """``path::Class.function``; what is defined inside a function counts as the function."""
    path = Path(code.co_filename).relative_to(Path(_ROOT).parent).as_posix()
    return f"{path}::{code.co_qualname.partition('.<locals>')[0]}"


_entered = _Entered()


def _id(test: str) -> str:
    return test.partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if TARGET not in os.environ:
        return (yield)
    threading.settrace(_entered.trace)
    sys.settrace(_entered.trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # pyright: ignore[reportArgumentType]  # as its documentation says
        _entered.end(_id(item.nodeid))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if TARGET in os.environ:
        told = _entered.tests.setdefault(
            _id(report.nodeid), {"seconds": 0.0, "passed": True, "entered": []}
        )
        told["seconds"] += report.duration
        told["passed"] = told["passed"] and not report.failed


def pytest_sessionfinish() -> None:
    if (target := os.environ.get(TARGET)) is not None:
        Path(target).write_text(json.dumps(_entered.tests), encoding="utf-8")
