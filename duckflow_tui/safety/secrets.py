"""Keeps secrets out of logs, journals, exports and error texts (promise 7)."""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, unquote

REDACTED: Final = "[redacted]"
_SHORTEST: Final = 4  # characters of a secret
_UNMISTAKABLE: Final = 8  # from here on it is replaced inside of words too
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@:]*:([^\s/@]+)(?=@)")

# Shapes that are a key wherever they stand: how each begins, then the whole of it. The beginnings
# are searched for as plain text, which is a hundred times faster on a long file.
_SHAPES: Final = tuple(
    (start, re.compile(re.escape(start) + rest, re.DOTALL))
    for start, rest in (
        ("sk-", r"[A-Za-z0-9_-]{16,}"),  # OpenAI and those who copy it
        ("ghp_", r"[A-Za-z0-9]{30,}"),
        ("gho_", r"[A-Za-z0-9]{30,}"),
        ("ghu_", r"[A-Za-z0-9]{30,}"),
        ("ghs_", r"[A-Za-z0-9]{30,}"),
        ("ghr_", r"[A-Za-z0-9]{30,}"),
        ("github_pat_", r"[A-Za-z0-9_]{30,}"),
        ("glpat-", r"[A-Za-z0-9_-]{16,}"),
        ("AKIA", r"[A-Z0-9]{16}\b"),
        ("ASIA", r"[A-Z0-9]{16}\b"),
        ("AIza", r"[A-Za-z0-9_-]{35}"),
        ("xox", r"[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("hf_", r"[A-Za-z0-9]{30,}"),
        ("npm_", r"[A-Za-z0-9]{30,}"),
        ("pypi-", r"[A-Za-z0-9_-]{40,}"),
        ("sk_live_", r"[A-Za-z0-9]{16,}"),
        ("rk_live_", r"[A-Za-z0-9]{16,}"),
        ("eyJ", r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
        ("-----BEGIN", r"[ A-Z0-9]*PRIVATE KEY-----(?:.*?-----END[ A-Z0-9]*PRIVATE KEY-----|.*)"),
    )
)

_AUTHORIZATION: Final = re.compile(r"(?i)(\b(bearer|basic)\s+)([A-Za-z0-9+/=._~-]{12,})")
_LONG_TOKEN: Final = 24  # characters from which on mixed case alone makes a token


def holds_secret(text: str) -> bool:
    """Whether something in the text has the shape of a key."""
    return next(_keys(text), None) is not None


class Redactor:
    """Replaces what it knows, and what looks like a key, by ``[redacted]``."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._spelled: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.know(known)

    def know(self, secrets: Iterable[str]) -> None:
        """Replace these too from now on, also as URLs and JSON spell them; shorter than 4 is no
        secret.
        """
        secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        spelled = self._spelled.union(form for secret in secrets for form in _spellings(secret))
        if spelled == self._spelled:
            return
        # The longest first, or the rest of a longer one would stay.
        ordered = sorted(spelled, key=lambda form: (-len(form), form))
        self._spelled, self._pattern = spelled, re.compile("|".join(map(_as_pattern, ordered)))

    def redact(self, text: str) -> str:
        """The text without secrets; what is no secret stays as it is."""
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        parts: list[str] = []
        at = 0
        for start, end in sorted(_keys(text)):
            if start >= at:
                parts += (text[at:start], REDACTED)
            at = max(at, end)
        text = "".join((*parts, text[at:]))
        text = _AUTHORIZATION.sub(_authorization, text)
        return _USERINFO.sub(REDACTED, text)


class RedactingFilter(logging.Filter):
    """For handlers: message, arguments, traceback and stack leave without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the record; always lets it through."""
        record.msg = self.redactor.redact(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._formatter.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self.redactor.redact(record.exc_text)
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self.redactor.redact(record.stack_info)
        return True


def _keys(text: str) -> Iterator[tuple[int, int]]:
    """Where something has the shape of a key and is no part of a longer word."""
    for start, shape in _SHAPES:
        at = text.find(start)
        while at >= 0:
            found = None if at and _is_word(text[at - 1]) else shape.match(text, at)
            if found:
                yield found.span()
            at = text.find(start, found.end() if found else at + 1)


def _authorization(found: re.Match[str]) -> str:
    """Without its credentials; ``basic authentication`` and ``bearer information`` are words."""
    head, scheme, value = found.groups()
    if scheme.lower() == "basic":
        secret = _is_user_and_password(value)
    else:
        mixed = len(value) >= _LONG_TOKEN and not (value.islower() or value.isupper())
        secret = mixed or any(char.isdigit() for char in value)
    return f"{head}{REDACTED}" if secret else found.group()


def _is_user_and_password(value: str) -> bool:
    bare = value.rstrip("=.")
    try:
        return ":" in base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode()
    except ValueError:
        return False


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _as_pattern(form: str) -> str:
    """A short one only as a whole word: ``test`` as a password must not spoil every path."""
    plain = re.escape(form)
    return plain if len(form) >= _UNMISTAKABLE else rf"(?<!\w){plain}(?!\w)"


def _spellings(secret: str) -> set[str]:
    forms = {secret, quote(secret, safe=""), quote(secret), unquote(secret)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {repr(secret)[1:-1]}
    return {form for form in forms if len(form) >= _SHORTEST}


_SET_DUMPABLE: Final = 4  # of prctl


def shield() -> bool:
    """Close this process to others of the same user; whether that was done. Linux only.

    A command runs as the same user, and ``/proc/<pid>/environ`` or a debugger would give it the
    keys that its own environment was rid of. Not dumpable, the app is closed to both, and writes
    no core that holds them; its own ``/proc/self/fd`` stays open to it. What it starts is not
    shielded: that ends with ``exec``. Root reads on.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    none = ctypes.c_ulong(0)
    return libc.prctl(ctypes.c_int(_SET_DUMPABLE), none, none, none, none) == 0
