"""Keeps secrets out of logs, journals, exports and error texts (promise 7)."""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, unquote

REDACTED: Final = "[redacted]"
_SHORTEST: Final = 4  # characters of a secret
_UNBROKEN: Final = 56  # characters that every program writes on one line
_URL_SAFE: Final = str.maketrans("+/", "-_")
_UNMISTAKABLE: Final = 8  # from here on it is replaced inside of words too
_USERINFO: Final = re.compile(r"(?<=://)[^\s/@:]*:([^\s/@]+)(?=@)")

_TOKEN: Final = "eyJ"  # ``{"`` in base64

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
        (_TOKEN, r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
        ("-----BEGIN", r"[ A-Z0-9]*PRIVATE KEY-----(?:.*?-----END[ A-Z0-9]*PRIVATE KEY-----|.*)"),
    )
)

# Ends of names of a key, and what may stand behind one where a value is given to it: in quotes, or
# behind NAME= as in the environment. The names are searched for as plain text, as the shapes are.
_NAMES: Final = tuple(
    spelled
    for word in ("key", "token", "secret", "password")
    for spelled in (word, word.upper(), word.title())
)
_QUALIFIED: Final = re.compile(
    r"(?i)(?:api|access|secret|private|auth|signing|encryption)[_-]?$|(?-i:(?<!PUBLIC)(?<!CACHE)(?<!PRIMARY)(?<=[A-Z0-9])_)$"
)
_GIVEN: Final = re.compile(
    r"""(?:(?:["']?\s{0,3}(?::=|=>|[:=])\s{0,3}(["']))|(?<=[A-Z])=)"""
    r"([A-Za-z0-9+/_.=~-]{16,200})(?(1)\1|(?![\w(\[]))"
)
#: What the parts of a token with the shape ``eyJ….eyJ….…`` are made of: where none begins at the
#: first letters of such a run, none begins in the rest of it.
_PART: Final = re.compile("[A-Za-z0-9_-]*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Values of such names in one text that are looked at; the rest of so many is taken for keys.
_MAX_GIVEN: Final = 20_000
_MAX_INSIDE: Final = 8  # the same for one run without a space
_RUN: Final = re.compile("=[A-Za-z0-9+/_.=~-]*")
_RANDOM: Final = 3.4  # bits for each character; words and numbers have fewer
_AUTHORIZATION: Final = re.compile(r"(?i)(\b(bearer|basic)\s+)([A-Za-z0-9+/=._~-]{12,})")
_LONG_TOKEN: Final = 24  # characters from which on mixed case alone makes a token


def holds_secret(text: str) -> bool:
    """Whether something in the text has the shape of a key."""
    return next(_find_key_shapes(text), None) is not None


class Redactor:
    """Replaces what it knows, and what looks like a key, by ``[redacted]``."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._spelled: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self.add_secrets(known)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Replace these too from now on, also as URLs and JSON spell them; shorter than 4 is no
        secret.
        """
        secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        spelled = self._spelled.union(form for secret in secrets for form in _spell_secret(secret))
        if spelled == self._spelled:
            return
        # The longest first, or the rest of a longer one would stay.
        ordered = sorted(spelled, key=lambda form: (-len(form), form))
        self._spelled, self._pattern = spelled, re.compile("|".join(map(_as_pattern, ordered)))

    def redact_text(self, text: str) -> str:
        """The text without secrets; what is no secret stays as it is."""
        if self._pattern is not None:
            text = self._pattern.sub(REDACTED, text)
        parts: list[str] = []
        at = 0
        spans = [*_find_key_shapes(text)]
        spans += _find_given_values(text)
        for start, end in sorted(spans):
            if start >= at:
                parts += (text[at:start], REDACTED)
            at = max(at, end)
        text = "".join((*parts, text[at:]))
        text = _AUTHORIZATION.sub(_redact_authorization, text)
        return _USERINFO.sub(REDACTED, text)


class RedactingFilter(logging.Filter):
    """For handlers: message, arguments, traceback and stack leave without secrets."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites the record; always lets it through."""
        record.msg = self.redactor.redact_text(record.getMessage())
        record.args = None
        if record.exc_info and not record.exc_text:
            record.exc_text = self._formatter.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self.redactor.redact_text(record.exc_text)
            record.exc_info = None
        if record.stack_info:
            record.stack_info = self.redactor.redact_text(record.stack_info)
        return True


def _find_key_shapes(text: str) -> Iterator[tuple[int, int]]:
    """Where something has the shape of a key and is no part of a longer word."""
    for start, shape in _SHAPES:
        at = text.find(start)
        while at >= 0:
            whole = not at or not _is_word(text[at - 1])
            found = shape.match(text, at) if whole else None
            after = at + len(start)
            if found:
                yield found.span()
                after = found.end()
            elif whole and start == _TOKEN and (run := _PART.match(text, at)):
                after = run.end()
            at = text.find(start, after)


def _find_given_values(text: str) -> Iterator[tuple[int, int]]:
    """Where values are given to names of keys, in time that grows with the text alone: of a run of
    characters without a space, and of the whole text, so many values are looked at, and what comes
    after them is taken for keys.
    """
    left = _MAX_GIVEN
    for name in _NAMES:
        end, run, inside = text.find(name), 0, 0
        while end >= 0:
            at = after = end + len(name)
            if at < run:
                inside += text.startswith("=", at)
            elif rest := _RUN.match(text, at):
                inside, run = 0, rest.end()
            if inside > _MAX_INSIDE:
                yield at, run
                after = run
            elif (found := _GIVEN.match(text, at)) and (
                name.lower() != "key" or _QUALIFIED.search(text[max(end - 12, 0) : end])
            ):
                left -= 1
                if left < 0 or _is_random(found[2]):
                    yield found.span(2)
            end = text.find(name, after)


def _redact_authorization(found: re.Match[str]) -> str:
    """Without its credentials; ``basic authentication`` and ``bearer information`` are words."""
    head, scheme, value = found.groups()
    if scheme.lower() == "basic":
        secret = _is_user_and_password(value)
    else:
        mixed = len(value) >= _LONG_TOKEN and not (value.islower() or value.isupper())
        secret = mixed or any(char.isdigit() for char in value)
    return f"{head}{REDACTED}" if secret else found.group()


def _is_random(value: str) -> bool:
    """Whether it is as random as a key is: letters and digits mixed, and no UUID."""
    if not (any(map(str.isdigit, value)) and any(map(str.isalpha, value))):
        return False
    counts = Counter(value)
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return bits >= _RANDOM and _UUID.fullmatch(value) is None


def _is_user_and_password(value: str) -> bool:
    bare = value.rstrip("=.")
    try:
        return ":" in base64.b64decode(bare + "=" * (-len(bare) % 4)).decode()
    except ValueError:
        return False


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _as_pattern(form: str) -> str:
    """A short one only as a whole word: ``test`` as a password must not spoil every path. In a long
    one programs break the line.
    """
    plain = r"\n?".join(map(re.escape, form)) if len(form) > _UNBROKEN else re.escape(form)
    return plain if len(form) >= _UNMISTAKABLE else rf"(?<!\w){plain}(?!\w)"


def _spell_secret(secret: str) -> set[str]:
    forms = {secret, quote(secret, safe=""), quote(secret), unquote(secret)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {repr(secret)[1:-1]}
    if len(secret) >= _UNMISTAKABLE:
        raw = secret.encode("utf-8", "replace")
        forms |= {secret[::-1], raw.hex(), raw.hex().upper(), raw.hex(" "), raw.hex(":")}
        for before in range(3):  # of other bytes; the characters that hold some of them are left
            coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
            inner = coded[(0, 2, 3)[before] : len(coded) - ((before + len(raw)) % 3 > 0)]
            forms |= {inner, inner.translate(_URL_SAFE)}
    return {form for form in forms if len(form) >= _SHORTEST}


_SET_DUMPABLE: Final = 4  # of prctl


def shield_process() -> bool:
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
