"""What a system error means for a session, and in which words it is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from duckflow_tui.session.faults import (
    NotASession,
    SessionUnreadable,
    code_of,
    describe_fault,
    make_open_fault,
)

HERE = Path("/state/s1")


@pytest.mark.parametrize(
    ("number", "code", "kind"),
    [
        (errno.ENOENT, "missing", NotASession),
        (errno.ELOOP, "link", NotASession),
        (errno.ENOSPC, "no_space", SessionUnreadable),
        (errno.EROFS, "read_only", SessionUnreadable),
        (errno.EACCES, "no_permission", SessionUnreadable),
        (errno.ENXIO, "io_error", SessionUnreadable),
    ],
)
def test_a_system_error_has_a_code_and_its_own_words(number: int, code: str, kind: type) -> None:
    error = OSError(number, "x")
    assert code_of(error) == code
    assert describe_fault(error) == os.strerror(number)
    fault = make_open_fault(HERE, error)
    assert (type(fault), fault.code, fault.path) == (kind, code, HERE)


def test_an_error_without_a_number_is_one_of_reading_and_writing() -> None:
    error = OSError("x")
    fault = SessionUnreadable(HERE, error)
    assert (fault.code, describe_fault(error)) == ("io_error", os.strerror(errno.EIO))
