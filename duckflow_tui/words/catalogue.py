"""The catalogue of the app's texts in English and Japanese, read from a folder of TOML files for
each language.

Keys are dotted: table and entry of a file. Headless runs and the command line use it too, so
nothing of Textual is imported. The first frame waits for this module; what only some texts need is
imported with the first of them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

if TYPE_CHECKING:
    import re

    from duckflow_tui.safety.safe_text import SafeText
    from duckflow_tui.state.base import LocalizedText


Language = Literal["en", "ja"]

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)

_FOLDER = Path(__file__).parent
_OPERATION: Final = "transcript.operation."


#: Params that may hold an error message of the system.
_OF_SYSTEM: Final = frozenset({"reason", "detail", "why", "error"})


@cache
def _load_system_words(language: str) -> dict[str, str]:
    """Return translations for error messages of the system and of libraries, by their
    English text.
    """
    import errno
    import os

    said: dict[str, str] = {}
    for key, text in load_entries(language).items():
        kind, _, name = key.partition(".")
        if kind == "errno" and hasattr(errno, name):
            said[os.strerror(getattr(errno, name))] = text
        elif kind == "library":
            said[load_entries("en")[key]] = text
    return said


@cache
def _operation_pattern() -> re.Pattern[str]:
    """Return the pattern that matches the names of operations that have words."""
    import re

    names = (
        key.removeprefix(_OPERATION) for key in load_entries("en") if key.startswith(_OPERATION)
    )
    return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, names))})(?![\w/-]|\.\w)")


class _Param(str):
    """A parameter of a text. ``{name:line|lines}`` formats it as a count with its noun: "1 line",
    "2 lines".
    """

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        one, counts, many = spec.partition("|")
        return f"{self!s} {one if self == '1' else many}" if counts else super().__format__(spec)


class _Params(dict[str, _Param]):
    """Parameters by name; a missing one is left in the text as ``{name}``."""

    def __missing__(self, key: str) -> _Param:
        return _Param("{" + key + "}")


@cache
def load_entries(language: str, file: str = "*") -> dict[str, str]:
    """Return the entries of a language, or of one file of it, by dotted key. Raises ValueError when
    two files define the same key.
    """
    import tomllib

    found: dict[str, str] = {}
    for path in sorted((_FOLDER / language).glob(f"{file}.toml")):
        for key, text in _flatten(tomllib.loads(path.read_text(encoding="utf-8"))):
            if key in found:
                raise ValueError(f"{path.name} defines {key} again")
            found[key] = text
    return found


def _flatten(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the entries of nested tables, by dotted key."""
    rows: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            rows.extend(_flatten(cast("dict[str, Any]", value), f"{prefix}{name}."))
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


class Catalogue:
    """The texts of one language. A missing key falls back to English, then to the key itself."""

    def __init__(self, language: str = "en") -> None:
        """An unknown language falls back to English."""
        self.language: str = language if language in LANGUAGES else "en"

    def __call__(self, key: str, /, **params: object) -> SafeText:
        """Return the text of a key with its ``{params}`` filled in; params are untrusted and their
        control characters made visible. A count may bring its noun: ``{count:line|lines}`` gives
        "1 line" or "2 lines". ``because`` is the key of a text, with the same params, that fills
        ``{reason}``.
        """
        text = load_entries(self.language).get(key, load_entries("en").get(key, key))
        if not params:
            return cast("SafeText", text)  # the app's own text
        from duckflow_tui.safety.safe_text import SafeText, make_visible

        if because := params.pop("because", ""):
            params["reason"] = self(str(because), **params).rstrip(".。")
        safe = _Params({name: _Param(make_visible(str(value))) for name, value in params.items()})
        if self.language != "en":
            for name in _OF_SYSTEM & safe.keys():
                safe[name] = _Param(self.translate_error(safe[name]))
        return SafeText(text.format_map(safe))

    def translate_error(self, text: str) -> SafeText:
        """Return an error message with the system's or a library's part in this language, where it
        is known, as in "a.txt: Permission denied".
        """
        import re

        from duckflow_tui.safety.safe_text import make_visible

        known = _load_system_words(self.language)
        either = "|".join(map(re.escape, known))
        pattern = rf"(^|: )(?:\[Errno -?\d+\] )?({either})(?=$|: )"
        said = re.sub(pattern, lambda found: f"{found[1]}{known[found[2]]}", make_visible(text))
        return cast("SafeText", said)

    def name_operations(self, text: str) -> str:
        """Return the text with each operation's name replaced by its word in the chat: ``edit
        a.py`` for ``file_ops.edit_file a.py``. An operation without a word, as of a server,
        keeps its name.
        """
        return _operation_pattern().sub(lambda name: str(self(f"{_OPERATION}{name[0]}")), text)

    def localize(self, text: LocalizedText | None) -> SafeText:
        """Return a text of the engine in this language; empty for None."""
        return self(text.key, **text.params) if text is not None else cast("SafeText", "")

    def has(self, key: str) -> bool:
        """Whether the catalogue has an English entry for the key."""
        return key in load_entries("en")
