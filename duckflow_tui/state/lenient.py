"""Reads values that a model wrote in another form than asked for, where only one meaning is
possible: "P1" for a priority, a text for a list, "Completed." for a choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

_Meaning = TypeVar("_Meaning")

#: Words that stand where a list or text has nothing to say.
_NOTHING: Final = frozenset(
    ("none", "n/a", "-", "–", "なし", "無し", "特になし", "nothing", "null")
)
_NO_WORD: Final = re.compile(r"[^a-z0-9぀-ヿ一-鿿]")

BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "complete", "done", "はい", "完了", "1", "可"), True),
    **dict.fromkeys(("false", "no", "incomplete", "いいえ", "未完了", "0", "不可"), False),
}
_PRIORITIES: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        ("1", "p1", "high", "highest", "must", "critical", "required", "mandatory", "essential"), 1
    ),
    **dict.fromkeys(("高", "高い", "必須", "最優先"), 1),
    **dict.fromkeys(("2", "p2", "medium", "mid", "middle", "normal", "should", "中", "推奨"), 2),
    **dict.fromkeys(("3", "p3", "low", "lowest", "could", "nice", "optional", "低", "任意"), 3),
}


def field_name(written: object) -> str:
    """Convert a key such as ``overallScore`` or ``Overall score`` to snake case."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(written).strip())
    return re.sub(r"[\s-]+", "_", split).lower()


def read_choice(given: object, words: Mapping[str, _Meaning]) -> _Meaning | None:
    """Look up a text in a fixed choice, without the marks around it; None if it says anything else
    or more.
    """
    return words.get(_choice_name(given))


def read_first_word(given: object, words: Mapping[str, _Meaning]) -> _Meaning | None:
    """Look up a text or, if unknown, its first word, as in "high: users see it"; None if both are
    unknown. Only for values that decide nothing: the rest of the text may deny its first word.
    """
    name = _choice_name(given)
    return words[name] if name in words else words.get(_NO_WORD.split(name)[0])


def _choice_name(given: object) -> str:
    """Convert a text to the form of the words of a choice."""
    return field_name("" if given is None else str(given).strip(" .!。*`"))


def read_priority(given: object) -> int | None:
    """Read a priority as 1, 2 or 3 from a number or a word such as "P1" or "must"; None if
    unknown.
    """
    number = str(given).strip().lstrip("Pp").removesuffix(".0")
    if number.isdecimal() or (isinstance(given, int) and not isinstance(given, bool)):
        return min(max(int(number), 1), 3)
    return read_first_word(given, _PRIORITIES)


def collect_texts(given: Any) -> list[str]:
    """Collect every text and number in a nested value, without phrases such as "none"."""
    if isinstance(given, dict):
        given = list(cast("dict[str, Any]", given).values())
    if isinstance(given, list):
        return [text for entry in cast("list[Any]", given) for text in collect_texts(entry)]
    text = "" if given is None or isinstance(given, bool) else str(given).strip()
    return [text] if text and text.casefold().strip(".。") not in _NOTHING else []


def join_texts(given: Any, between: str = "; ") -> str:
    """Join a text that was written as a list or object of texts; "" for null."""
    if isinstance(given, dict):
        entries = cast("dict[str, Any]", given).items()
        said = [(str(key), join_texts(value)) for key, value in entries]
        return between.join(f"{key}: {text}" for key, text in said if text)
    if isinstance(given, list):
        return between.join(filter(None, (join_texts(one) for one in cast("list[Any]", given))))
    return "" if given is None or isinstance(given, bool) else str(given).strip()
