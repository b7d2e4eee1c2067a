"""Content-addressed storage: files as they were before a change, and long outputs, each stored
under the SHA-256 of its bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import os
import re
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from duckflow_tui.safety.file_changes import Disk
from duckflow_tui.session.folders import (
    OWN_FOLDER,
    draft_in,
    open_directory,
    open_plain,
)
from duckflow_tui.state.base import hash_data

BLOBS: Final = "blobs"  # in the session's folder
_HEX: Final = frozenset("0123456789abcdef")
_SHA_LENGTH: Final = 64
_NAMED: Final = re.compile(rb"[0-9a-f]{64}")
_PIECE: Final = 1_000_000  # bytes copied at once
LARGEST: Final = 1_000_000_000  # bytes that are read at once


class DamagedBlob(KeyError):
    """Raised for a blob whose bytes do not have the hash that names it."""


class FileBlobs:
    """Blobs as files ``ab/ab12…`` below a folder of the app; directories are 0700, files 0600. A
    file is rewritten only where it is damaged.
    """

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder = folder
        self._disk = disk or Disk()

    async def put(self, data: bytes) -> str:
        """Store the bytes and return their SHA-256 once they are synced to disk. Raises OSError."""
        return await asyncio.to_thread(self.put_blocking, data)

    async def put_file(self, file: BinaryIO) -> str:
        """Copy an open file, from its position to its end, into a blob and return its SHA-256.
        Raises OSError.
        """
        return await asyncio.to_thread(self._write_blob, file)

    async def get(self, sha: str) -> bytes:
        """Return the bytes with this SHA-256. Raises KeyError for a missing blob, DamagedBlob for
        one with other bytes, and OSError, also for one over 1 GB.
        """
        return await asyncio.to_thread(self.get_blocking, sha)

    def put_blocking(self, data: bytes) -> str:
        """Do the work of ``put`` in the calling thread, which waits for the disk."""
        sha = hash_data(data)
        with (
            contextlib.suppress(OSError),
            _open_blob(self._blob_path(sha)) as file,
        ):  # else it is kept anew
            if hashlib.file_digest(file, "sha256").hexdigest() == sha:
                return sha
        return self._write_blob(io.BytesIO(data))

    def get_blocking(self, sha: str) -> bytes:
        """Do the work of ``get`` in the calling thread, which waits for the disk."""
        path = self._blob_path(sha)
        try:
            with _open_blob(path) as file:
                data = file.read()
        except FileNotFoundError:
            raise KeyError(sha) from None
        if hash_data(data) != sha:
            raise DamagedBlob(sha)
        return data

    def _blob_path(self, sha: str) -> Path:
        """Return the file of a hash. Raises KeyError for a string that is no SHA-256."""
        if len(sha) != _SHA_LENGTH or not _HEX.issuperset(sha):
            raise KeyError(sha)
        return self._folder / sha[:2] / sha

    def _write_blob(self, source: BinaryIO) -> str:
        """Copy a stream to a draft, rename the draft to the hash of its content, and return that
        hash.
        """
        self._folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        self._folder.chmod(OWN_FOLDER)  # the umask may have taken our own rights
        found = hashlib.sha256()
        with open_directory(self._folder) as folder:
            with draft_in(self._disk, folder) as draft:
                while piece := source.read(_PIECE):
                    found.update(piece)
                    draft.write(piece)
                sha = found.hexdigest()
                with contextlib.suppress(FileExistsError):
                    os.mkdir(sha[:2], OWN_FOLDER, dir_fd=folder)
                    os.chmod(sha[:2], OWN_FOLDER, dir_fd=folder)
                with open_directory(sha[:2], folder) as shelf:
                    draft.publish_as(shelf, sha)
                    self._disk.sync_directory(shelf)
            self._disk.sync_directory(folder)
        return sha


def session_blobs(path: Path) -> FileBlobs:
    """Return the blob store of the session in this folder, ``STATE/sessions/KEY/ID``."""
    return FileBlobs(path / BLOBS)


def find_hashes(data: bytes) -> set[str]:
    """Return all strings of 64 hex digits in the data; each may be the name of a blob."""
    return {found.decode() for found in _NAMED.findall(data)}


def _open_blob(path: Path) -> BufferedReader:
    """Open the file of a blob for reading. Raises OSError, also for one over 1 GB."""
    file = open_plain(path)
    if os.fstat(file.fileno()).st_size > LARGEST:
        file.close()
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return file


class MemoryBlobs:
    """Blobs in memory, lost with the process: the store of a run with ``--no-session``."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Keep the bytes and return their SHA-256."""
        sha = hash_data(data)
        self._kept[sha] = data
        return sha

    async def put_file(self, file: BinaryIO) -> str:
        """Keep the content of an open file, from its position to its end, and return its
        SHA-256.
        """
        return await self.put(file.read())

    async def get(self, sha: str) -> bytes:
        """Return the bytes with this SHA-256. Raises KeyError for an unknown one."""
        return self._kept[sha]
