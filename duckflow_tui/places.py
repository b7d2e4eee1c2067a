"""The app's own folders and files: where they are, how they are locked and written, confirmed
addresses, and a first look at the UI settings.
"""

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
    """Raised where the system knows no home folder for this user."""


class Places(NamedTuple):
    """The app's three folders. ``DUCKFLOW_HOME`` moves all of them."""

    config: Path
    data: Path
    state: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Places:
        """Return the folders of this user; none is created. Raises NoHome, and OSError where
        ``DUCKFLOW_HOME`` is relative to a working directory that was deleted.
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
        """The three folders, in which no operation of a model may write."""
        return self.config, self.data, self.state

    def close_to_others(self) -> None:
        """Create the folders of data and state and set their mode to 0700, whatever the umask.
        Errors are ignored; a later use reports them.
        """
        for folder in (self.data, self.state):
            with contextlib.suppress(OSError):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                folder.chmod(0o700)


def peek_ui_settings(places: Places) -> dict[str, str]:
    """Return the strings in ``[ui]`` of the settings file, unchecked; empty where the file cannot
    be read.

    Serves to choose the language before ``load_settings`` checks the file.
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
    """Return the path of the log file that this process writes; empty without one."""
    import logging

    handlers = logging.getLogger().handlers
    files = (h for h in handlers if h.name == APP and isinstance(h, logging.FileHandler))
    return next((file.baseFilename for file in files), "")


AssetFolder = Literal["styles", "prompts"]
_PACKAGE = Path(__file__).resolve().parent


def find_assets(name: AssetFolder) -> Path:
    """Return the folder of styles or prompts, from the source checkout if there is one, so that
    edits act at once. Raises FileNotFoundError where the installation is incomplete.
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
    """The addresses to which the user confirmed plain http: a text file of the app, one origin a
    line, which the user may edit.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "confirmed_origins.txt"

    def is_confirmed(self, origin: str) -> bool:
        """Whether exactly this origin was confirmed; False where the file cannot be read."""
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")[:MAX_ORIGINS]
        except (OSError, UnicodeDecodeError):
            return False
        return origin in lines

    def confirm_origin(self, origin: str) -> None:
        """Add an origin to the file. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(f"{origin}\n")


_IN_USE: Final = "another duckflow-tui process keeps the folder locked"
LOCK_S: Final = 10.0  # seconds to wait for another program's change, which takes milliseconds


@contextlib.contextmanager
def lock_folder(folder: Path, seconds: float | None = None) -> Generator[None]:
    """Lock a folder, created where it is missing, against other processes of this program for the
    block.

    Blocks. Raises TimeoutError after ``seconds``, by default ``LOCK_S``, and OSError. On a disk
    without locks the block runs unlocked.
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
    """Replace a file atomically and durably, with mode 0600 by default. Raises OSError; the file is
    then unchanged.
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
