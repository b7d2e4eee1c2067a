"""Bytes kept by what they are: what a file held before a change, and output too long to show."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import secrets
from pathlib import Path
from typing import BinaryIO, Final

from duckflow_tui.state.base import digest

_HEX: Final = frozenset("0123456789abcdef")
_SHA_LENGTH: Final = 64
_PIECE: Final = 1_000_000  # bytes copied at once


class DamagedBlob(KeyError):
    """What lies under a hash is not what was kept there."""


class FileBlobs:
    """Blobs in a folder of the app, ``ab/ab12…``: directories 0700, files 0600, never rewritten."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, data: bytes) -> str:
        """Keep the bytes and return their SHA-256; returns once a crash cannot take them.

        Raises OSError, and then leaves nothing behind.
        """
        return await asyncio.to_thread(self._put, data)

    async def put_file(self, file: BinaryIO) -> str:
        """Keep what a file holds from where it stands, piece by piece; else as ``put``."""
        return await asyncio.to_thread(self._put_file, file)

    async def get(self, sha: str) -> bytes:
        """The bytes; raises KeyError when there are none, DamagedBlob when they are others."""
        return await asyncio.to_thread(self._get, sha)

    async def has(self, sha: str) -> bool:
        """Whether something lies under that hash."""
        return await asyncio.to_thread(self._path(sha).is_file)

    def _path(self, sha: str) -> Path:
        if len(sha) != _SHA_LENGTH or not _HEX.issuperset(sha):
            raise KeyError(sha)
        return self._folder / sha[:2] / sha

    def _put(self, data: bytes) -> str:
        sha = digest(data)
        path = self._path(sha)
        if self._holds(path, sha, len(data)):
            return sha
        self._keep(io.BytesIO(data))
        return sha

    def _put_file(self, source: BinaryIO) -> str:
        start = source.tell()
        found = hashlib.sha256()
        while piece := source.read(_PIECE):
            found.update(piece)
        sha = found.hexdigest()
        size = source.tell() - start
        if not self._holds(self._path(sha), sha, size):
            source.seek(start)
            return self._keep(source)
        return sha

    def _keep(self, source: BinaryIO) -> str:
        """Copy to a draft, then give it the name of what was copied."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{secrets.token_hex(8)}"
        found = hashlib.sha256()
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:
                while piece := source.read(_PIECE):
                    found.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            path = self._path(found.hexdigest())
            path.parent.mkdir(mode=0o700, exist_ok=True)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
        _sync_folder(self._folder)
        return path.name

    def _holds(self, path: Path, sha: str, size: int) -> bool:
        try:
            if path.stat().st_size != size:
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha
        except FileNotFoundError:
            return False

    def _get(self, sha: str) -> bytes:
        try:
            data = self._path(sha).read_bytes()
        except FileNotFoundError:
            raise KeyError(sha) from None
        if digest(data) != sha:
            raise DamagedBlob(sha)
        return data


class MemoryBlobs:
    """Blobs that are lost with the process: for ``--no-session``."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Keep the bytes and return their SHA-256."""
        sha = digest(data)
        self._kept[sha] = data
        return sha

    async def put_file(self, file: BinaryIO) -> str:
        """Keep what a file holds from where it stands."""
        return await self.put(file.read())

    async def get(self, sha: str) -> bytes:
        """The bytes; raises KeyError when there are none."""
        return self._kept[sha]

    async def has(self, sha: str) -> bool:
        """Whether something lies under that hash."""
        return sha in self._kept


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power loss; Windows has no such thing."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
