"""Blobs: kept under their hash, private, whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from duckflow_tui.session.blobs import DamagedBlob, FileBlobs, MemoryBlobs
from duckflow_tui.state.base import digest


async def test_what_is_put_comes_back_and_lies_private(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path / "session" / "blobs")
    old = os.umask(0)
    try:
        sha = await blobs.put(b"bytes \0\r\n")
    finally:
        os.umask(old)
    assert sha == digest(b"bytes \0\r\n")
    assert await blobs.get(sha) == b"bytes \0\r\n"
    path = tmp_path / "session" / "blobs" / sha[:2] / sha
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


async def test_the_same_bytes_are_kept_once(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    sha = await blobs.put(b"x")
    before = (tmp_path / sha[:2] / sha).stat().st_ino
    assert await blobs.put(b"x") == sha
    assert (tmp_path / sha[:2] / sha).stat().st_ino == before


async def test_a_damaged_blob_is_never_given_out_and_is_mended_by_the_next_put(
    tmp_path: Path,
) -> None:
    blobs = FileBlobs(tmp_path)
    sha = await blobs.put(b"good")
    (tmp_path / sha[:2] / sha).write_bytes(b"evil")
    with pytest.raises(DamagedBlob):
        await blobs.get(sha)
    await blobs.put(b"good")
    assert await blobs.get(sha) == b"good"


@pytest.mark.parametrize("sha", ["0" * 64, "../../etc/passwd", "", "0" * 63 + "/"])
async def test_what_was_never_kept_is_a_key_error(tmp_path: Path, sha: str) -> None:
    with pytest.raises(KeyError):
        await FileBlobs(tmp_path).get(sha)
    with pytest.raises(KeyError):
        await MemoryBlobs().get(sha)


async def test_a_blob_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    blobs = FileBlobs(tmp_path)
    sha = digest(b"x")
    (tmp_path / sha[:2]).write_bytes(b"a file where the folder belongs")
    with pytest.raises(OSError, match=r"exists|directory"):
        await blobs.put(b"x")
    assert os.listdir(tmp_path) == [sha[:2]]
