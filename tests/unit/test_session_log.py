"""The log file: there, private, and without secrets."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from duckflow_tui.session.faults import open_log

LIBRARIES: Final = ("openai", "httpx2", "httpcore2", "asyncio", "watchfiles", "markdown_it")


@pytest.fixture(autouse=True)
def root_logger() -> Generator[None]:
    """Give the handlers back that the test runner had."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in LIBRARIES}
    yield
    for name, old in quiet.items():
        logging.getLogger(name).setLevel(old)
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def test_a_key_never_reaches_the_log_not_even_in_a_traceback(tmp_path: Path) -> None:
    """Promise 7."""
    key = "local-0123456789-secret"
    old = os.umask(0)
    try:
        path = open_log(tmp_path / "home" / "state", [key])
    finally:
        os.umask(old)
    assert path is not None
    log = logging.getLogger("duckflow.test")
    log.warning("sent with %s", key)
    try:
        raise RuntimeError(f"Authorization: Bearer {key}")
    except RuntimeError:
        log.exception("broken")
    text = path.read_text()
    assert "RuntimeError" in text
    assert key not in text
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_log_that_is_full_goes_on_in_a_file_as_private(tmp_path: Path) -> None:
    path = open_log(tmp_path / "state", [])
    assert path is not None
    log = logging.getLogger("duckflow.test")
    held: list[int] = []
    for _ in range(5):  # two of them fit into a file of a megabyte
        log.warning("x" * 400_000)
        held.append(len(list(path.parent.iterdir())))
    assert held == [1, 1, 2, 2, 2]
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["duckflow.log", "duckflow.log.1"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_a_folder_that_cannot_be_written_costs_only_the_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert open_log(tmp_path / "file" / "state", []) is None
    assert len(logging.getLogger().handlers) == 1  # else Python writes it over the screen
    logging.getLogger("duckflow.test").warning("nobody hears this")


def test_the_log_takes_the_place_of_any_other_and_says_when_how_and_who(tmp_path: Path) -> None:
    root = logging.getLogger()
    open_log(tmp_path, [])
    path = open_log(tmp_path, [], logging.WARNING)
    assert path is not None
    assert len(root.handlers) == 1
    logging.getLogger("duckflow.test").info("not this")
    logging.getLogger("duckflow.test").warning("this")
    assert re.fullmatch(r"[-0-9]{10} [0-9:,]{12} WARNING duckflow\.test this\n", path.read_text())
