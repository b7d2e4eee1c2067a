"""The texts of the demo's model, in the language of what the user wrote."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

_JAPANESE: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")

#: The line of a request that quotes the user, in the words of either language's prompts.
_USERS_WORDS: Final = re.compile(
    r"^(?:Request of the user|Request in hand"
    r"|ユーザーのリクエスト|取り組み中のリクエスト): (.+)$|^<request>\n(.+)$",
    re.M,
)


def language_of(said: str) -> str:
    """``en`` or ``ja``, by the letters of a text."""
    return "ja" if _JAPANESE.search(said) else "en"


def language_of_request(text: str) -> str:
    """The language of the user's request that a prompt quotes."""
    found = _USERS_WORDS.findall(text)
    return language_of("".join(found[-1])) if found else "en"


@cache
def texts(name: str, language: str) -> dict[str, Any]:
    """The texts of one part of the demo; an empty ``name`` is the story that it begins with."""
    stem = f"{name}.{language}" if name else language
    path = Path(__file__).with_name("words") / f"{stem}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def filled(text: str, **values: str) -> str:
    """The text with each ``{name}`` replaced, in this order: put the user's own words last."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
