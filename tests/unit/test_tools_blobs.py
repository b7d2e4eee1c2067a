"""Blobs: kept under their hash, private, whole or not at all."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import Final

import pytest
from support.journal_disks import FaultyDisk

from duckflow_tui.session.blobs import (
    DamagedBlob,
    FileBlobs,
    MemoryBlobs,
)
from duckflow_tui.state.base import hash_data

PIECE: Final = 1_000_000  # bytes that are copied at once
LARGEST: Final = 1_000_000_000  # bytes that are read


@pytest.mark.parametrize("umask", [0, 0o277])
async def test_what_is_put_comes_back_and_lies_private(tmp_path: Path, umask: int) -> None:
    (tmp_path / "session").mkdir(0o700)
    blobs = FileBlobs(tmp_path / "session" / "blobs")
    old = os.umask(umask)
    try:
        sha = await blobs.put(b"bytes \0\r\n")
    finally:
        os.umask(old)
    assert sha == hash_data(b"bytes \0\r\n")
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
    sha = hash_data(b"x")
    (tmp_path / sha[:2]).write_bytes(b"a file where the folder belongs")
    with pytest.raises(OSError, match=r"exists|directory"):
        await blobs.put(b"x")
    assert os.listdir(tmp_path) == [sha[:2]]


@pytest.mark.parametrize("size", [0, 9, PIECE, 2 * PIECE + 3])
async def test_a_file_is_kept_from_where_it_stands(tmp_path: Path, size: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    for blobs in (FileBlobs(tmp_path), MemoryBlobs()):
        for _ in range(2):
            file = io.BytesIO(b"before" + data)
            file.seek(6)
            assert await blobs.put_file(file) == hash_data(data)
        assert await blobs.get(hash_data(data)) == data
    assert os.listdir(tmp_path) == [hash_data(data)[:2]]


async def test_a_name_survives_a_power_loss_where_it_was_moved_to(tmp_path: Path) -> None:
    disk = FaultyDisk()
    sha = await FileBlobs(tmp_path / "blobs", disk).put(b"x")
    assert disk.calls[-2:] == ["sync_directory", "sync_directory"]
    disk.calls.clear()
    assert await FileBlobs(tmp_path / "blobs", disk).put(b"x") == sha
    assert disk.calls == []


@pytest.mark.parametrize("place", ["pipe", "folder", "link"])
async def test_only_a_plain_file_is_read(tmp_path: Path, place: str) -> None:
    blobs = FileBlobs(tmp_path)
    sha = await blobs.put(b"x")
    path = tmp_path / sha[:2] / sha
    path.unlink()
    if place == "pipe":
        os.mkfifo(path)
    elif place == "folder":
        path.mkdir()
    else:
        (tmp_path / "x").write_bytes(b"x")
        path.symlink_to(tmp_path / "x")
    with pytest.raises(OSError, match=r"Invalid|symbolic links"):
        await blobs.get(sha)
