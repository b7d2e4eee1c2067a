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
    from duckflow_tui.safety.safe_text import SafeText
    from duckflow_tui.state.base import Told


Language = Literal["en", "ja"]

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)

_FOLDER = Path(__file__).parent


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


@cache
def entries(language: str) -> dict[str, str]:
    """All entries of a language by dotted key; raises ValueError when two files define one."""
    import tomllib

    found: dict[str, str] = {}
    for path in sorted((_FOLDER / language).glob("*.toml")):
        for key, text in _flat(tomllib.loads(path.read_text(encoding="utf-8"))):
            if key in found:
                raise ValueError(f"{path.name} defines {key} again")
            found[key] = text
    return found


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            rows.extend(_flat(cast("dict[str, Any]", value), f"{prefix}{name}."))
        else:
            rows.append((f"{prefix}{name}", str(value)))
    return rows


class Catalogue:
    """Words of one language; a key that is missing there is said in English, else as itself."""

    def __init__(self, language: str = "en") -> None:
        self.language: str = language if language in LANGUAGES else "en"

    def __call__(self, key: str, /, **params: object) -> SafeText:
        """The entry with its ``{params}`` filled in; params are untrusted and made visible."""
        text = entries(self.language).get(key) or entries("en").get(key) or key
        if not params:
            return cast("SafeText", text)  # our own
        import string

        from duckflow_tui.safety.safe_text import SafeText, visible

        safe = {name: visible(str(value)) for name, value in params.items()}
        return SafeText(string.Formatter().vformat(text, (), _Known(safe)))

    def told(self, said: Told | None) -> SafeText:
        """What the engine says, empty for nothing."""
        return self(said.key, **said.params) if said is not None else cast("SafeText", "")

    def has(self, key: str) -> bool:
        """Whether English knows the key."""
        return key in entries("en")
