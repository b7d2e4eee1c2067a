"""Whether a message tells the work to go on: rules in English, Japanese and German words."""

from __future__ import annotations

import re
from typing import Final, Literal

GoesOn = Literal["all", "begins", "no"]

_WORDS: Final = (
    r"continue|go on|go ahead|carry on|keep going|proceed|resume|try (?:it )?again|once more|retry"
    r"|(?:mach |bitte )?weiter(?:machen)?"
)
_WORDS_JA: Final = (
    r"(?:作業を|処理を)?(?:続けて|つづけて|続行|再開|進めて|もう一度|やり直して|続き)"
    r"(?:して)?(?:を)?(?:ください|下さい|くれ|お願い(?:します)?|頼む)?"
)
_POLITE: Final = r"(?:please|now|then|ok(?:ay)?|yes|bitte|ja|はい|では)"
_BEGINS: Final = re.compile(
    rf"\W*(?:{_POLITE}\W+)*(?:(?:{_WORDS})\b|{_WORDS_JA})(?:\W*{_POLITE}\b)*", re.IGNORECASE
)


def goes_on(text: str) -> GoesOn:
    """``all``: it says nothing else; ``begins``: it begins so, and more words follow."""
    found = _BEGINS.match(text)
    if found is None:
        return "no"
    return "all" if not re.search(r"\w", text[found.end() :]) else "begins"
