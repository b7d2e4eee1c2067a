"""The app's own words in English and Japanese, one folder of TOML files each.

Keys are dotted: the table and the entry of a file. No Textual here: headless runs and the
command line speak through it too. The first frame waits for this module, so that what only
words need is imported with the first word.
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


#: Params that may hold what the system says of an error.
_OF_SYSTEM: Final = frozenset({"reason", "detail", "why", "error"})


@cache
def _load_system_words(language: str) -> dict[str, str]:
    """The words of a language for an error of the system or of a library, by their own."""
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
    """The names of the operations that have words."""
    import re

    names = (
        key.removeprefix(_OPERATION) for key in load_entries("en") if key.startswith(_OPERATION)
    )
    return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, names))})(?![\w/-]|\.\w)")


class _Param(str):
    """The text for ``{name}``, and for ``{name:line|lines}`` with the noun that fits."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        one, counts, many = spec.partition("|")
        return f"{self!s} {one if self == '1' else many}" if counts else super().__format__(spec)


class _Known(dict[str, _Param]):
    def __missing__(self, key: str) -> _Param:
        return _Param("{" + key + "}")


@cache
def load_entries(language: str, file: str = "*") -> dict[str, str]:
    """The entries of a language, or of one file of it, by dotted key. Raises ValueError when two
    files define one.
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
    rows: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            rows.extend(_flatten(cast("dict[str, Any]", value), f"{prefix}{name}."))
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


class Catalogue:
    """Words of one language; a key that is missing there is said in English, else as itself."""

    def __init__(self, language: str = "en") -> None:
        self.language: str = language if language in LANGUAGES else "en"

    def __call__(self, key: str, /, **params: object) -> SafeText:
        """The entry with its ``{params}`` filled in; params are untrusted and made visible. A count
        may bring its noun: ``{count:line|lines}`` is "1 line", and "2 lines". ``because``, the key
        of a sentence with the same params, fills ``{reason}``.
        """
        text = load_entries(self.language).get(key, load_entries("en").get(key, key))
        if not params:
            return cast("SafeText", text)  # our own
        from duckflow_tui.safety.safe_text import SafeText, make_visible

        if because := params.pop("because", ""):
            params["reason"] = self(str(because), **params).rstrip(".。")
        safe = _Known({name: _Param(make_visible(str(value))) for name, value in params.items()})
        if self.language != "en":
            for name in _OF_SYSTEM & safe.keys():
                safe[name] = _Param(self.translate_error(safe[name]))
        return SafeText(text.format_map(safe))

    def translate_error(self, text: str) -> SafeText:
        """The system's message of an error, in this language where it has words for it; also in
        front of a name or behind one, as in "a.txt: Permission denied".
        """
        import re

        from duckflow_tui.safety.safe_text import make_visible

        known = _load_system_words(self.language)
        either = "|".join(map(re.escape, known))
        pattern = rf"(^|: )(?:\[Errno -?\d+\] )?({either})(?=$|: )"
        said = re.sub(pattern, lambda found: f"{found[1]}{known[found[2]]}", make_visible(text))
        return cast("SafeText", said)

    def name_operations(self, text: str) -> str:
        """The text with the words of the chat for each operation in it: ``edit a.py`` for
        ``file_ops.edit_file a.py``. One without words, as of a server, keeps its name.
        """
        return _operation_pattern().sub(lambda name: str(self(f"{_OPERATION}{name[0]}")), text)

    def localize(self, said: LocalizedText | None) -> SafeText:
        """A text of the engine, empty for none."""
        return self(said.key, **said.params) if said is not None else cast("SafeText", "")

    def has(self, key: str) -> bool:
        """Whether English knows the key."""
        return key in load_entries("en")
