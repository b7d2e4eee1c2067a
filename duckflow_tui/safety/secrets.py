"""Keeps secrets out of logs, journals, exports and error texts (promise 7).

Two kinds are found: secrets that the app knows, in many encodings, and strings as random as a key
in a place where keys stand: behind a name such as ``token``, in a URL, in a cookie or netrc line.
"""

from __future__ import annotations

import base64
import ctypes
import html
import json
import logging
import math
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Final
from urllib.parse import quote, unquote

from duckflow_tui.safety.names import words_of
from duckflow_tui.safety.safe_text import ESCAPE

REDACTED: Final = "[redacted]"

Span = tuple[int, int]  # in characters, its end excluded

# A search blocks every other thread until it ends, so a long text is searched in windows.
_WINDOW: Final = 1 << 18  # characters
_OVERLAP: Final = 1 << 13  # characters that a match may reach into the next window


def _search_windows(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern, searching a long text in windows so that other threads can
    run. A match is complete also where it goes beyond a window.
    """
    at = 0
    for start in range(0, len(text), _WINDOW):
        stop = start + _WINDOW
        for found in pattern.finditer(text, max(at, start), stop + _OVERLAP):
            if found.start() >= stop:
                break
            whole = pattern.match(text, found.start()) if found.end() == stop + _OVERLAP else found
            if whole is not None:
                at = whole.end()
                yield whole


def _find_through_escapes(text: str, find: Callable[[str], Iterable[Span]]) -> Iterator[Span]:
    """Yield the spans that ``find`` returns for the text, and those that it returns for the text
    without escape sequences, as spans of the text itself.
    """
    yield from find(text)
    if "\x1b" not in text:
        return
    places: list[int] = []  # of the sequences, in the text without them
    lengths = [0]  # of all sequences up to each
    for found in ESCAPE.finditer(text):
        places.append(found.start() - lengths[-1])
        lengths.append(lengths[-1] + len(found[0]))
    for start, end in find(ESCAPE.sub("", text)):
        last = end - 1
        yield (
            start + lengths[bisect_right(places, start)],
            last + lengths[bisect_right(places, last)] + 1,
        )


# --- strings as random as a key ----------------------------------------------------------------

_LEAST: Final = 12  # characters of such a string
_MEASURED: Final = 128  # of its characters
_LEAST_ODD: Final = 5  # pairs of characters that words do not have
_LEAST_BITS: Final = 3.0  # entropy of a character
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile("[0-9a-fA-F]+")

#: First letter of each word here → the letters that follow it in nine tenths of all pairs in
#: words and identifiers.
_NEXT_LETTERS: Final = {
    word[0]: word[1:]
    for word in words_of(
        "abcdgilmnprstu baelouy caehklortu daeios eacdefglmnpqrstvxy faioru geirs haeiot "
        "iabcdefglmnoprstvz ke ladefilostuy maeiop nacdefgiostu obcdfklmnoprstuvw paeiloprtuy qu "
        "racdegimnorstuy sacehiopstuy taehiorstuy ueilmnprst vaei waehio xct yp"
    )
}


def _is_random(text: str) -> bool:
    """Whether the text, or a part of it between slashes, dots or ``@``, is as random as a key.
    Words, paths, numbers, dates and UUIDs are not. Only the first 128 characters are measured.
    """
    text = _UUID.sub("", text[:_MEASURED])
    return any(_has_odd_pairs(part) for part in (text, *re.split("[/.@]", text)))


def _has_odd_pairs(text: str) -> bool:
    """Whether at least half of the pairs of neighbouring characters are rare in words, in a text of
    many different characters.
    """
    if len(text) < _LEAST:
        return False
    odd = pairs = 0
    for one, other in pairwise(text):
        if one.isalpha() and other.isalpha():
            if one.islower() and other.isupper():
                continue  # a new word begins, as in camelCase
            pairs += 1
            odd += other.lower() not in _NEXT_LETTERS.get(one.lower(), "")
        elif one.isalnum() and other.isalnum() and one.isalpha() != other.isalpha():
            pairs += 1
            odd += 1
    least = 0.5 if any(map(str.isdigit, text)) else 0.6  # some words have nearly as many
    if odd < _LEAST_ODD or odd < least * pairs:
        return False
    shares = [count / len(text) for count in Counter(text).values()]
    return -sum(share * math.log2(share) for share in shares) >= _LEAST_BITS


# --- places where keys stand --------------------------------------------------------------------

#: Beginnings of the words below, for a plain search, which is much faster.
_STEMS: Final = ("key", "token", "secret", "pass", "pwd", "auth", "cred", "bearer")
_WORDS: Final = (
    *("key", "token", "secret", "password", "passwd", "passphrase", "pass", "pwd", "auth"),
    *("authorization", "authentication", "credential", "bearer"),
)
_JAPANESE: Final = ("キー", "トークン", "シークレット", "パスワード", "鍵", "秘密", "認証", "暗証")
#: The part of a name that announces a key: a word, or the end of one.
_NAME: Final = re.compile(
    rf"(?:{'|'.join(form for word in _WORDS for form in (word, word.title()))})s?(?![a-z])"
    rf"|(?:{'|'.join(map(str.upper, _WORDS))})S?(?![A-Za-z])|{'|'.join(_JAPANESE)}"
)
#: Letters and digits directly before a name; where they are random, the name is part of encoded
#: bytes.
_RUN_BEFORE: Final = re.compile(r"[A-Za-z0-9+/]{12,}\Z")
_REST_OF_NAME: Final = re.compile(r"\w{0,40}")
#: Before the word ``key``: not a secret key.
_NO_SECRET: Final = re.compile(r"(?i)(?:pub(?:lic)?|cache)[ _-]?$")
#: The end of the name of a file or a host.
_SUFFIX: Final = re.compile(r"\.[a-z]{2,4}$")
#: A string of characters that keys are made of.
_CHUNK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9+/_.~%!@#$^*-]*={0,2}")
_MOST_CHUNKS: Final = 6  # behind a name
_LONGEST_WORD: Final = 40  # characters; in a longer run no further name is looked for
_REACH: Final = 400  # characters behind a name
_BEFORE_VALUES: Final = tuple("=:>\"'`|\\")

#: A token with the prefix of its vendor, ``word_…``: from the separator on; and the prefix.
_BODY: Final = re.compile(r"[_.-]([A-Za-z0-9_.-]{20,}+)(?![+/=])")
_PREFIX: Final = re.compile(r"(?<![\w./+-])(?!sha\d)[A-Za-z][A-Za-z0-9]{0,11}\Z")
_LEAST_JWT: Final = 30  # characters
_JWT: Final = re.compile(r"eyJ[\w-]*+((?:\.[\w-]*+)*)")

#: The first line of a private key, or its last.
_KEY_MARK: Final = re.compile(r"-----(BEGIN|END)[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?(?:-----)?")
#: A run of base64, behind a line break written as two characters, or behind a diff's sign.
_KEY_RUN: Final = re.compile(r"(?:\\[nrt])?+\+?([A-Za-z0-9+/]{2,}+={0,2})")
_LEAST_KEY_RUN: Final = 16  # characters of a run that can look random
_KEY_LENGTH: Final = 20_000  # characters of a private key, with the text around its lines
_KEY_GAP: Final = 600  # characters between two runs where BEGIN or END is missing

_USER_AND_PASSWORD: Final = re.compile(r"://([^\s/@:]*+:[^\s/@]++)@")
_USER: Final = re.compile(r"://([^\s/@:]{12,}+)@")
_QUERY: Final = re.compile(r"[?&]([\w.~%\[\]-]{1,64})=([^\s&\"'<>#;]{12,}+)")
_NETRC: Final = re.compile(
    r"(?:machine\s{1,40}\S{1,255}|default)\s{1,40}login\s{1,40}\S{1,255}\s{1,40}"
    r"password\s{1,40}(\S++)"
)
_COOKIE_FILE: Final = re.compile(r"\t(?:TRUE|FALSE)\t\d{1,20}\t[^\t\n]{1,255}\t(\S++)")
_COOKIE_LINE: Final = re.compile(r"(?:[Cc]ookie|COOKIE)[\"']?\s{0,3}[:=][^\n]*")
_COOKIE: Final = re.compile(r"=([^;\s\"']{12,}+)")


def holds_secret(text: str, before: str = "") -> bool:
    """Whether the text has a string that looks like a key, in a place where keys stand, and that
    the text ``before`` does not have.
    """
    spans = _find_through_escapes(text, _find_keys)
    return any(text[start:end] not in before for start, end in spans)


def _find_keys(text: str) -> Iterator[Span]:
    """Yield the spans of strings that look like keys, in no order; they may overlap."""
    yield from _find_private_keys(text)
    yield from _find_named_values(text)
    for found in _search_windows(_JWT, text):
        if found[1].count(".") >= 2 and len(found[0]) >= _LEAST_JWT:
            yield found.span()
    for found in _search_windows(_BODY, text):
        body, before = found[1], text[max(0, found.start() - 14) : found.start()]
        if not (body.islower() or body.isupper()) and _PREFIX.search(before) and _is_random(body):
            yield found.span(1)
    for pattern in (_USER_AND_PASSWORD, _NETRC, _COOKIE_FILE):  # any value in such a place
        for found in _search_windows(pattern, text):
            yield found.span(1)
    for found in _search_windows(_USER, text):
        if _is_random(found[1]):
            yield found.span(1)
    for found in _search_windows(_QUERY, text):
        # A hexadecimal value is the hash of a version, unless it is a signature.
        is_hash = _HEX.fullmatch(found[2]) and "sig" not in found[1].lower()
        if _is_random(found[2]) and not is_hash:
            yield found.span(2)
    for line in _search_windows(_COOKIE_LINE, text):
        for found in _COOKIE.finditer(text, line.start(), line.end()):
            if _is_random(found[1]):
                yield found.span(1)


def _find_private_keys(text: str) -> Iterator[Span]:
    """Yield the spans of the base64 lines of PEM private keys: those between BEGIN and END; where
    one of these is missing, the lines that follow each other from the other mark on. Text around
    the lines, such as quotes or diff signs, is not included.
    """
    for one, other in pairwise((None, *_search_windows(_KEY_MARK, text), None)):
        begin, end = one.end() if one else 0, other.start() if other else len(text)
        begins = one is not None and one[1] == "BEGIN"
        ends = other is not None and other[1] == "END"
        whole = begins and ends and end - begin <= _KEY_LENGTH
        if begins:
            runs = _find_key_runs(text, begin, end, _KEY_LENGTH if whole else _KEY_GAP)
            yield from _add_short_runs(text, [(begin, begin), *runs, *[(end, end)] * whole])
        if ends and not whole:
            near = [(end, end)]
            runs = [*_find_key_runs(text, max(begin, end - _KEY_LENGTH), end, _KEY_LENGTH)]
            while runs and near[-1][0] - runs[-1][1] <= _KEY_GAP:
                near.append(runs.pop())
            yield from _add_short_runs(text, near[::-1])


def _find_key_runs(text: str, at: int, stop: int, gap: int) -> Iterator[Span]:
    """Yield the spans of base64 runs that are as random as a key, from ``at`` until ``gap``
    characters have none.
    """
    last, joined = at, ""
    alike: list[Span] = []  # runs of the same length, not yet random together
    while (found := _KEY_RUN.search(text, at, min(stop, last + gap))) is not None:
        # Complete where the end of the gap cut it.
        run = _KEY_RUN.match(text, found.start(), stop) or found
        at = run.end()
        if not alike or alike[-1][1] - alike[-1][0] != len(run[1]):
            joined, alike = "", []
        joined = (joined + run[1])[-_MEASURED:]
        alike.append(run.span(1))
        if len(joined) >= _LEAST_KEY_RUN and not _HEX.fullmatch(joined) and _is_random(joined):
            last = at
            yield from alike
            alike = alike[-1:]


def _add_short_runs(text: str, runs: list[Span]) -> Iterator[Span]:
    """Yield the runs, and the shorter base64 runs between two of them that can be the last line of
    a key, where the same text separates all of them. The first and the last run may be empty.
    """
    for (_, begin), (end, _) in pairwise(runs):
        short = [run.span(1) for run in _KEY_RUN.finditer(text, begin, end) if _is_key_end(run[1])]
        places = [begin, *chain.from_iterable(short), end]
        around = {
            re.sub(r"[\d\s=+]", "", text[a:b])
            for a, b in zip(places[::2], places[1::2], strict=True)
        }
        if len(around) == 1:
            yield from short
    yield from (run for run in runs if run[0] < run[1])


def _is_key_end(text: str) -> bool:
    """Whether a base64 run, too short to look random, can be the last line of a key."""
    kinds = map(str.isupper, text), map(str.islower, text), map(str.isdigit, text)
    return "=" in text or all(map(any, kinds))


def _find_names(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of words that announce a key, such as ``token`` or ``password``,
    in order.
    """
    for start in range(0, len(text), _WINDOW):
        # Of the same length: "İ" in lower case has two characters.
        part = text[start : start + _WINDOW + _OVERLAP].replace("İ", "I").lower()
        places: list[int] = []
        for stem in (*_STEMS, *_JAPANESE):
            stop = _WINDOW + len(stem) - 1  # a stem that begins in the window is found
            at = part.find(stem, 0, stop)
            while at >= 0:
                places.append(start + at)
                at = part.find(stem, at + len(stem), stop)
        yield from filter(None, (_NAME.match(text, place) for place in sorted(places)))


def _find_named_values(text: str) -> Iterator[Span]:
    """Yield the spans of random strings among the first six words behind a name that announces a
    key, on the same line or, where nothing stands behind the name there, on the next. A
    hexadecimal string counts only directly behind the name or an assignment sign, as it may be
    the hash of a version.
    """
    end = 0  # of the text searched so far
    for name in _find_names(text):
        if name.start() < end:
            continue
        before = text[max(0, name.start() - 40) : name.start()]
        run = _RUN_BEFORE.search(before)
        if _NO_SECRET.search(before) or (run is not None and _is_random(run[0])):
            continue
        rest = _REST_OF_NAME.match(text, name.end())
        end = rest.end() if rest is not None else name.end()
        at, on_next_line = end, False
        line_end = text.find("\n", at, at + _REACH)
        if line_end >= 0 and _CHUNK.search(text, at, line_end) is None:
            at, on_next_line = line_end + 1, True
            line_end = text.find("\n", at, at + _REACH)
        stop = line_end if line_end >= 0 else at + _REACH
        for number, chunk in enumerate(islice(_CHUNK.finditer(text, at, stop), _MOST_CHUNKS)):
            begin, follows = chunk.start(), number == 0 and not on_next_line
            if chunk.end() - begin < _LEAST:
                continue
            whole = _CHUNK.match(text, begin) if chunk.end() == at + _REACH else chunk
            assigned = text[max(0, begin - 40) : begin].rstrip().endswith(_BEFORE_VALUES)
            if (
                whole is not None
                and (follows or assigned or not _HEX.fullmatch(whole[0]))
                and not _SUFFIX.search(whole[0])
                and _is_random(whole[0])
            ):
                end = whole.end()
                yield begin, end
                break
            if follows and chunk.end() - begin > _LONGEST_WORD:
                end = chunk.end()


# --- secrets that the app knows -------------------------------------------------------------------

_SHORTEST: Final = 4  # characters
_UNMISTAKABLE: Final = 8  # characters of a secret that is replaced inside words too
_SPLITTABLE: Final = 16  # letters and digits of a secret that is found in pieces too
_BASES: Final = ("02x", "02X", "03o", "d", "08b")  # in which programs print bytes
_URL_SAFE: Final = str.maketrans("+/", "-_")
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())
#: A line break written as two characters, or a line break with a line number behind it.
_BREAK: Final = re.compile(r"\\[rn]|\n[^\S\n]{0,20}\d{1,7}[^\w\n]")
#: Text that may separate two characters of a secret that is written in pieces.
_GAP: Final = r"(?:\\[rn]|\n[^\S\n]{0,20}\d{1,7}[^\w\n]|[\W_]){0,60}?"


class Redactor:
    """Replaces known secrets, and strings that look like keys, by ``[redacted]``."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        """``known`` are secrets to redact from the start."""
        self._spellings: frozenset[str] = frozenset()
        #: Letters and digits of a spelling → the pattern that finds it in pieces, None until used.
        self._split: dict[str, re.Pattern[str] | None] = {}
        self.add_secrets(known)

    def add_secrets(self, secrets: Iterable[str]) -> None:
        """Redact these secrets from now on, in all spellings; those shorter than 4 characters are
        ignored.
        """
        secrets = [secret for secret in secrets if len(secret) >= _SHORTEST]
        spellings = self._spellings.union(s for secret in secrets for s in _spell_secret(secret))
        if spellings == self._spellings:
            return
        self._spellings = spellings
        bare = map(_drop_signs, spellings)
        self._split = {letters: None for letters in bare if len(letters) >= _SPLITTABLE}

    def redact_text(self, text: str) -> str:
        """Return the text with each secret replaced by ``[redacted]``."""
        spans = _find_through_escapes(
            text, lambda text: chain(self._find_known(text), _find_keys(text))
        )
        parts: list[str] = []
        at = 0
        for start, end in sorted(spans):
            if start >= at:
                parts += (text[at:start], REDACTED)
            at = max(at, end)
        return "".join((*parts, text[at:]))

    def _find_known(self, text: str) -> Iterator[Span]:
        """Yield the spans of known secrets, whole or broken over several lines."""
        for spelling in self._spellings:
            yield from _find_spelling(spelling, text)
        if not self._split:
            return
        bare = _drop_signs(text), _drop_signs(_BREAK.sub("\n", text))
        for letters, pattern in self._split.items():
            if letters in bare[0] or letters in bare[1]:
                if pattern is None:
                    self._split[letters] = pattern = re.compile(_GAP.join(letters))
                for found in _search_windows(pattern, text):
                    yield found.span()


class RedactingFilter(logging.Filter):
    """A logging filter that redacts message, arguments, traceback and stack."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self.redactor = redactor
        self._formatter = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the record's message by the redacted, fully formatted text. Always
        returns True.
        """
        record.msg = self.redactor.redact_text(self._formatter.format(record))
        record.args = record.exc_info = record.exc_text = record.stack_info = None
        return True


def _find_spelling(spelling: str, text: str) -> Iterator[Span]:
    """Yield the spans of a spelling in the text; of a short one only as a whole word, so that a
    password ``test`` does not redact parts of paths.
    """
    at = text.find(spelling)
    while at >= 0:
        end = at + len(spelling)
        around = text[max(0, at - 1) : at], text[end : end + 1]
        if len(spelling) >= _UNMISTAKABLE or not any(c.isalnum() or c == "_" for c in around):
            yield at, end
        at = text.find(spelling, end)


def _drop_signs(text: str) -> str:
    """Return only the ASCII letters and digits of the text."""
    return text.encode("ascii", "ignore").translate(None, _SIGNS).decode("ascii")


def _spell_secret(secret: str) -> set[str]:
    """Return the secret in all spellings: plain, as URL, JSON, HTML and Python write it, base32,
    base64, reversed, and as programs print its bytes.
    """
    forms = {secret, quote(secret, safe=""), quote(secret), unquote(secret)}
    forms |= {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    forms |= {repr(secret)[1:-1], html.escape(secret)}
    forms |= {re.sub("%..", lambda code: code[0].lower(), form) for form in forms if "%" in form}
    if len(secret) >= _UNMISTAKABLE:
        raw = secret.encode("utf-8", "replace")
        forms |= {secret[::-1], base64.b32encode(raw).decode().rstrip("=")}
        forms |= {"".join(format(byte, base) for byte in raw) for base in _BASES}
        forms |= {"".join(f"{mark}{byte:02x}" for byte in raw) for mark in ("\\x", "\\u00")}
        for encoding in ("utf-8", "utf-16-le"):
            raw = secret.encode(encoding, "replace")
            # At each offset in a group of three; characters shared with other bytes are left out.
            for before in range(3):
                coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
                inner = coded[(0, 2, 3)[before] : len(coded) - ((before + len(raw)) % 3 > 0)]
                forms |= {inner, inner.translate(_URL_SAFE)}
    return {form for form in forms if len(form) >= _SHORTEST}


_SET_DUMPABLE: Final = 4  # of prctl


def shield_process() -> bool:
    """Make this process undumpable, so that others of the same user cannot read it; return whether
    that worked. Linux only.

    A command runs as the same user: ``/proc/<pid>/environ`` or a debugger would give it the keys
    that were removed from its own environment. An undumpable process is closed to both and writes
    no core dump; its own ``/proc/self/fd`` stays open to it. Child processes are not protected, as
    ``exec`` resets the flag. Root can still read.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    none = ctypes.c_ulong(0)
    return libc.prctl(ctypes.c_int(_SET_DUMPABLE), none, none, none, none) == 0
