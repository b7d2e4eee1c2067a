"""The log file: there, private, and without secrets."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from duckflow_tui.session.faults import MAX_BYTES, open_log


@pytest.fixture(autouse=True)
def root_logger() -> Generator[None]:
    """Give the handlers back that the test runner had."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def test_a_key_never_reaches_the_log_not_even_in_a_traceback(tmp_path: Path) -> None:
    """Promise 7."""
    key = "local-0123456789-secret"
    path = open_log(tmp_path / "state", [key])
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
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_log_that_is_full_goes_on_in_a_file_as_private(tmp_path: Path) -> None:
    path = open_log(tmp_path / "state", [])
    assert path is not None
    log = logging.getLogger("duckflow.test")
    for _ in range(2):
        log.warning("x" * (MAX_BYTES - 200))
    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == ["duckflow.log", "duckflow.log.1"]
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_a_folder_that_cannot_be_written_costs_only_the_log(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert open_log(tmp_path / "file" / "state", []) is None
    logging.getLogger("duckflow.test").warning("nobody hears this")
