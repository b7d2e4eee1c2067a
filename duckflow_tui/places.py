"""Where the app keeps its own files, and what they say of the screen before they are checked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from duckflow_tui.startup_facts import MAX_SETTINGS
from duckflow_tui.startup_facts import read_plain_file as read_plain_file

APP: Final = "duckflow"
FILE_NAME: Final = "settings.toml"


class NoHome(Exception):
    """The system knows no home of this user."""


class Places(NamedTuple):
    """Where the app keeps its own files. ``DUCKFLOW_HOME`` moves all three."""

    config: Path
    data: Path
    state: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Places:
        """The folders of this user on this system; none is created. Raises NoHome, and OSError
        where ``DUCKFLOW_HOME`` is relative to a folder that was deleted.
        """
        home = environ.get("DUCKFLOW_HOME")
        if home:
            root = Path(os.path.expanduser(home)).absolute()
            return cls(root / "config", root / "data", root / "state")
        import platformdirs

        try:
            return cls(
                Path(platformdirs.user_config_dir(APP, appauthor=False)),
                Path(platformdirs.user_data_dir(APP, appauthor=False)),
                Path(platformdirs.user_state_dir(APP, appauthor=False)),
            )
        except RuntimeError as error:
            raise NoHome from error

    @property
    def settings_file(self) -> Path:
        """The user's settings file."""
        return self.config / FILE_NAME

    @property
    def own_dirs(self) -> tuple[Path, Path, Path]:
        """The three folders: no operation of a model ever writes there."""
        return self.config, self.data, self.state

    def close_to_others(self) -> None:
        """Make the folders of data and state, which hold what the user said and agreed to, for
        their owner alone, whatever the umask. What cannot be made is left to who needs it.
        """
        for folder in (self.data, self.state):
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                folder.chmod(0o700)


def peek_ui_settings(places: Places) -> dict[str, str]:
    """The texts of ``[ui]`` without checking them; empty where the file cannot be read.

    For the language of a mistake on the command line; ``load_settings`` checks what counts.
    """
    try:
        data = read_plain_file(places.settings_file, MAX_SETTINGS)
    except OSError:
        return {}
    import tomllib

    try:
        table = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # no UTF-8, no TOML, or too deep
        return {}
    section = table.get("ui")
    if not isinstance(section, dict):
        return {}
    entries = cast("dict[str, Any]", section)
    return {key: value for key, value in entries.items() if isinstance(value, str)}


def find_log_file() -> str:
    """Return the path of the log that this process writes; empty where none can be written."""
    import logging

    handlers = logging.getLogger().handlers
    files = (h for h in handlers if h.name == APP and isinstance(h, logging.FileHandler))
    return next((file.baseFilename for file in files), "")


AssetFolder = Literal["styles", "prompts"]
_PACKAGE = Path(__file__).resolve().parent


def find_assets(name: AssetFolder) -> Path:
    """The folder of that name; the checkout's comes first, so that edits act at once. Raises
    FileNotFoundError, naming both places, when the installation is incomplete.
    """
    checkout = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    packaged = _PACKAGE / name
    if packaged.is_dir():
        return packaged
    raise FileNotFoundError(f"{name}/ is neither in {checkout} nor in {packaged}")


MAX_ORIGINS: Final = 1000  # lines that are read


class ConfirmedOrigins:
    """A text file in the app's data folder, one origin a line; the user may edit it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "confirmed_origins.txt"

    def is_confirmed(self, origin: str) -> bool:
        """Whether the user confirmed exactly this origin; False when the file cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:MAX_ORIGINS]
        except (OSError, UnicodeDecodeError):
            return False
        return origin in lines

    def confirm_origin(self, origin: str) -> None:
        """Remember it; raises OSError when the file cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{origin}\n")


_IN_USE: Final = "another program of duckflow-tui does not let go of the folder"
LOCK_S: Final = 10.0  # seconds that a change waits for another program's; each takes milliseconds


@contextlib.contextmanager
def lock_folder(folder: Path, seconds: float | None = None) -> Generator[None]:
    """Keep other programs of ours from changing files of this folder, which is made if missing.
    Raises OSError, TimeoutError after so many seconds, by default ``LOCK_S``. On a disk without
    locks it goes without.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    until = time.monotonic() + (LOCK_S if seconds is None else seconds)
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError(errno.ETIMEDOUT, _IN_USE, str(folder)) from None
                time.sleep(0.01)
                continue
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                    raise
            break
        yield
    finally:
        os.close(held)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file at once by one with this content and these rights, by default for this user
    only. It outlives a power loss. Raises OSError; the file is then as before.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # not every disk can sync a folder
            os.fsync(folder)
    finally:
        os.close(folder)
