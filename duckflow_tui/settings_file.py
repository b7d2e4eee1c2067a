"""Writes a setting that the user chose on the screen into their settings file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Final, cast

from duckflow_tui.places import Places, lock_folder, write_private
from duckflow_tui.settings import Say, load_settings
from duckflow_tui.state.base import one_line

#: Settings that can also be set by a command-line flag, with that flag.
FLAGS: Final = {"ui.language": "--lang", "ui.theme": "--theme"}
LOCK_S: Final = 1.0  # seconds to wait for another instance that is writing


def save_setting(
    places: Places,
    key: str,
    value: object,
    say: Say,
    *,
    by_flag: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> str:
    """Write a valid value under this dotted key of the user's settings file.

    Returns a sentence for the user if the next start may not use the value, else an empty string:
    an environment variable overrides it, the file cannot be read or written, or a command-line flag
    set it at this start (``by_flag``). A file that cannot be read is left unchanged.
    """
    loaded, path = load_settings(places, environ), places.settings_file
    for problem in loaded.problems:
        if problem.source == str(path) and problem.key in ("", key.partition(".")[0]):
            where = f"{path.name}:{problem.line}" if problem.line else path.name
            why = say(f"settings.why.{problem.code}", **problem.params)
            return say("choice.not_kept", reason=f"{where}: {why}")
    origin = loaded.origins.get(key)
    if origin is not None and origin.name != str(path):
        return say("choice.set_by_variable", name=origin.name)
    try:
        write_setting(Path(os.path.realpath(path)), key, value)
    except OSError as error:
        reason = f"{path.name}: {error.strerror or error}"
        return say("choice.not_kept", reason=reason)
    except ValueError as error:  # the file was changed since it was read above
        reason = f"{path.name}: {one_line(str(error), 200)}"
        return say("choice.not_kept", reason=reason)
    return say("choice.set_by_flag", flag=FLAGS[key]) if by_flag else ""


def write_setting(path: Path, key: str, value: object) -> None:
    """Set the value under this dotted key of a TOML file, created where it is missing, or for None
    remove it; everything else in it stays, comments and order included. Raises OSError, and
    ValueError for a file that is not TOML.
    """
    import tomlkit

    *sections, name = key.split(".")
    with lock_folder(path.parent, LOCK_S):
        text, mode = "", 0o600
        try:
            with path.open("r+b") as file:  # fails for a file that must not be written
                text = file.read().decode("utf-8-sig")
                mode = os.fstat(file.fileno()).st_mode & 0o777
        except FileNotFoundError:
            pass
        document = tomlkit.parse(text)
        table = reduce(lambda at, part: at.setdefault(part, tomlkit.table()), sections, document)
        if value is None:
            with suppress(KeyError):
                del table[name]
        elif isinstance(value, tuple):
            table[name] = list(cast("tuple[object, ...]", value))
        else:
            table[name] = str(value) if isinstance(value, str) else value  # an enum as its text
        write_private(path, document.as_string().encode(), mode)
