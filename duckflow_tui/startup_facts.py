"""Facts for the first frame, read quickly from arguments, environment and settings.

This module imports only what Python has already loaded, not even ``typing``, because the first
frame waits for it. Arguments and settings are parsed and checked later; the app's first drawing
corrects a wrong guess.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final

LANGUAGES: Final = ("en", "ja")
MODES: Final = ("plan", "strict", "standard", "trusted")
PROTOCOLS: Final = ("auto", "tools", "json", "responses")
SANDBOXES: Final = ("auto", "full", "none", "external")
THEMES: Final = ("duck-dark", "duck-light", "duck-contrast", "duck-contrast-light")
MAX_SETTINGS: Final = 256 * 1024  # bytes; R18

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "--mode": MODES,
    "--protocol": PROTOCOLS,
    "--lang": LANGUAGES,
    "--sandbox": SANDBOXES,
    "--theme": THEMES,
}
_TAKE_ONE: Final = {"--dir", "--base-url", "--model", "--api-key-env", *_CHOICES}
RESUME: Final = "--resume"
_SWITCHES: Final = {"-c", "--continue", "--demo", "--no-animation"}


class Glance:
    """Look of the first frame: language, theme, title and demo."""

    def __init__(self, language: str, theme: str, title: str, *, demo: bool) -> None:
        self.language = language
        self.theme = theme
        self.title = title  # name of the workspace folder; may hold anything
        self.demo = demo


def look_at_arguments(
    arguments: Sequence[str], environ: Mapping[str, str] = os.environ
) -> Glance | None:
    """Return the look of the first frame; None unless these arguments certainly start the app.

    Help, a headless run, a mistake and anything unusual give None: the app then starts without a
    first frame. The caller checks that the streams are a terminal.
    """
    given = _read_flags(arguments)
    if given is None:
        return None
    settings = _ui_settings(environ)
    setting = environ.get("DUCKFLOW_UI__LANGUAGE") or settings.get("language", "auto")
    language = given.get("--lang") or resolve_language(setting, environ)
    theme = given.get("--theme") or environ.get("DUCKFLOW_UI__THEME") or settings.get("theme", "")
    try:
        folder = os.path.abspath(os.path.expanduser(given.get("--dir", ".")))
    except OSError:  # the working folder is gone
        return None
    demo = "--demo" in given
    title = "little-shop" if demo else os.path.basename(folder) or folder
    return Glance(language, theme or THEMES[0], title, demo=demo)


def read_plain_file(path: str | os.PathLike[str], most: int) -> bytes:
    """Read at most ``most`` bytes of a regular file. Raises OSError, also for a folder, a pipe or a
    device, without blocking on it.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
            words = os.strerror(code) if code == errno.EISDIR else "Not a regular file"
            raise OSError(code, words, os.fspath(path))
        with open(handle, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(handle)


def resolve_language(setting: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the setting where it is ``en`` or ``ja``; else the language of the first of LC_ALL,
    LC_MESSAGES, LANG that is set, ``en`` for any other.
    """
    if setting in LANGUAGES:
        return setting
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = environ.get(name, "")
        if value:
            return "ja" if value.lower().startswith("ja") else "en"
    return "en"


def _read_flags(arguments: Sequence[str]) -> dict[str, str] | None:
    """Parse the flags of an interactive start with their values; None where an argument is not one
    of them.
    """
    given: dict[str, str] = {}
    rest = list(reversed(arguments))
    while rest:
        name, sign, value = rest.pop().partition("=")
        if name == RESUME:  # an id may follow
            if not sign and rest and not rest[-1].startswith("-"):
                value = rest.pop()
            given[name] = value
            continue
        if not sign and name in _SWITCHES:
            given[name] = ""
            continue
        if name not in _TAKE_ONE:
            return None
        if not sign:
            value = rest.pop() if rest else "-"
            if value.startswith("-"):
                return None
        if name in _CHOICES and value not in _CHOICES[name]:
            return None
        given[name] = value
    return given


def _ui_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Read strings and booleans of ``[ui]`` from the settings file without ``tomllib``, whose
    import takes longer than the frame.
    """
    try:
        data = read_plain_file(settings_path(environ), MAX_SETTINGS)
        lines = data.decode("utf-8-sig", "replace").split("\n")
    except (OSError, ValueError):
        return {}
    found: dict[str, str] = {}
    inside = False
    for line in lines:
        line = line.strip()
        if line.startswith("["):
            inside = line.partition("#")[0].strip() == "[ui]"
            continue
        name, sign, value = line.partition("=")
        value = value.strip()
        if inside and sign and value[:1] in ('"', "'"):
            found[name.strip()] = value[1:].partition(value[0])[0]
        elif inside and value.partition("#")[0].strip() in ("true", "false"):
            found[name.strip()] = value.partition("#")[0].strip()
    return found


def settings_path(environ: Mapping[str, str]) -> str:
    """Return the path of the settings file, the same as ``places.Places`` has."""
    home = environ.get("DUCKFLOW_HOME")
    if home:
        return os.path.join(os.path.expanduser(home), "config", "settings.toml")
    if sys.platform == "linux":  # what platformdirs says there, without its import
        config = environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")
        return os.path.join(config, "duckflow", "settings.toml")
    from duckflow_tui.places import Places

    return str(Places.find(environ).settings_file)
