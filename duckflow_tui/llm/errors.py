"""Failures of calls to a model, as one error with a code and a setting to look at.

The screen's words for a code stand in ``words/<language>/llm.toml``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, NamedTuple, cast

import jiter

from duckflow_tui.llm.endpoints import KEPT_KEY, Endpoint, setting_of
from duckflow_tui.state.base import escape_unprintable
from duckflow_tui.state.usage import LlmCall

ErrorCode = Literal[
    "no_model",  # the role has no model, or names an endpoint that is not there
    "no_key",  # the variable with the key is empty
    "no_kept_key",  # the key that the program keeps cannot be read
    "kept_key",  # the server does not accept that one
    "no_key_sent",  # the server wants a key, and there was none to send
    "key_withheld",  # it wants one, and ours may not go over plain http
    "bad_key",  # the key holds characters that no header can carry
    "refused_url",  # plain http to a public host
    "not_found_host",  # the name does not resolve
    "unknown_model",  # the server has others; ``detail`` names some
    "loading",  # the model is not in memory yet
    "unloaded",  # the server has no model in memory, and loads none by itself
    "wait_asked",  # it takes requests again after ``seconds``, which are too many to wait here
    "responses_only",  # the model speaks another protocol of the same server
    "proxy",  # of the environment; ``setting`` is its variable
    "socks",  # it is one, for which the package is not installed
    "certificates",  # those that a variable of the environment names cannot be read
    "internal",  # a fault of this program, which is in its log
    "connect", "tls", "rate_limited", "quota", "server_error", "auth", "forbidden", "not_found",
    "bad_request", "context_overflow", "redirect", "html", "not_json", "too_large", "stalled",
    "cut", "empty", "filtered",
]  # fmt: skip

#: Answers that do not tell a wrong address from a server that has no list of its models.
UNLISTED: Final = ("not_found", "not_json", "html")
DETAIL: Final = 300  # characters of an answer that an error shows
MASK: Final = "•••"
_TOLD_APART: Final = 16  # letters and digits; fewer may stand in a text by chance


@dataclass(eq=False)
class LlmError(Exception):
    """A call that brought no reply to act on.

    ``detail`` holds at most 300 characters of what the server sent, escaped, keys masked;
    ``setting`` is the dotted name of the setting to look at, empty when none would help;
    ``retry_after`` is the time in seconds that the server asked for, when it did; ``message`` and
    ``param`` are the server's own words, masked, to learn from, and ``reason`` is its code;
    ``generation`` is what its model wrote where it takes that for no call; ``call`` is the account
    of the call, None when nothing was sent.
    """

    code: ErrorCode
    _: KW_ONLY
    endpoint: str = ""
    model: str = ""
    host: str = ""
    detail: str = ""
    setting: str = ""
    retryable: bool = False
    status: int | None = None
    retry_after: float | None = None
    seconds: float | None = None
    message: str = ""
    param: str = ""
    reason: str = ""
    generation: str = ""
    key_name: str = ""  # the variable that holds the key, or would
    call: LlmCall | None = None

    def __str__(self) -> str:
        where = self.host or self.endpoint or "no endpoint"
        return f"{self.code}: {where}: {self.detail}".rstrip(": ")

    @property
    def params(self) -> dict[str, str]:
        """The parameters of the words for the screen."""
        return {
            "host": self.host,
            "endpoint": self.endpoint,
            "model": self.model,
            "detail": self.detail.rstrip(".。"),  # the sentence that it stands in ends by itself
            "setting": self.setting,
            "variable": self.key_name,
            "status": "" if self.status is None else str(self.status),
            "seconds": "" if self.seconds is None else f"{self.seconds:.0f}",
        }


def escape_text(text: str, secrets: Iterable[str] = (), limit: int = DETAIL) -> str:
    """The beginning of a text that is not trusted, on one line, nothing in it able to act. Secrets
    are masked before the cut, so that no part of one survives at the edge.
    """
    window = text[: limit * 8]
    for secret in secrets:
        if secret:
            window = mask_secret(window, secret)
    flat = " ".join(window.split())
    return escape_unprintable(flat[:limit])[:limit]


def mask_secret(text: str, secret: str) -> str:
    """The text without the secret, also where only its beginning made it to the end; a long one
    also in other letters, spaced out, backwards, in base64 or as hexadecimal digits.
    """
    text = _without_forms(text.replace(secret, MASK), secret)
    for length in range(min(len(secret) - 1, len(text)), 3, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + MASK
    return text


def _without_forms(text: str, secret: str) -> str:
    """Mask a secret that differs only in case, punctuation, order or encoding."""
    if len(secret) > 2 * len(text):
        return text
    raw = secret.encode("utf-8", "replace")
    forms = {secret, raw.hex()}
    for before in range(3):  # of other bytes; the characters that hold some of them are left
        coded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        forms.add(coded[(0, 2, 3)[before] : len(coded) - ((before + len(raw)) % 3 > 0)])
    flat = [(c, at) for at, char in enumerate(text) if char.isalnum() for c in char.lower()]
    letters, places = "".join(c for c, _ in flat), [at for _, at in flat]
    gone = set[int]()
    for form in forms:
        wanted = "".join(filter(str.isalnum, form)).lower()
        for way in (wanted, wanted[::-1]) if len(wanted) >= _TOLD_APART else ():
            at = letters.find(way)
            while at >= 0:
                gone |= set(range(places[at], places[at + len(way) - 1] + 1))
                at = letters.find(way, at + len(way))
    kept = (
        char if at not in gone else "" if at - 1 in gone else MASK for at, char in enumerate(text)
    )
    return "".join(kept)


_RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504, 529})

_OVERFLOW: Final = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length|exceeds? the (?:available )?context|n_ctx"
    r"|token limit exceeded|input length .{0,40}exceed|request too large|reduce your message size",
    re.I,
)

_QUOTA: Final = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)
_LOADING: Final = re.compile(
    r"loading (?:the )?model|model (?:is )?(?:currently |still )*loading", re.I
)
_UNLOADED: Final = re.compile(r"no models? (?:is |are )?loaded", re.I)
_WRONG_KEY: Final = re.compile(r"API_KEY_INVALID|api key not valid|invalid_api_key", re.I)
_FILTERED: Final = re.compile(r"\bcontent_filter\b|content management policy", re.I)
_RESPONSES: Final = re.compile(
    r"v1/responses|not a chat model|only (?:be )?(?:used|supported) (?:with|in) the responses", re.I
)
_WORDS: Final = 2000  # characters of the server's message that are kept to learn from


@dataclass(frozen=True, slots=True)
class FailureTeller:
    """Makes the errors of one endpoint and model; ``_secrets`` are masked in them."""

    _endpoint: Endpoint
    _model: str
    _secrets: tuple[str, ...]
    _key_name: str = ""  # the variable that the key came from
    _withheld: bool = False  # it may not be sent to this address

    @property
    def host(self) -> str:
        """The host that is asked."""
        return self._endpoint.host

    def make_error(
        self,
        code: ErrorCode,
        detail: str | bytes = "",
        *,
        setting: str = "",
        retryable: bool = False,
    ) -> LlmError:
        """Make an error with this endpoint's names; ``setting`` is one of its own keys."""
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else detail
        return LlmError(
            code,
            endpoint=self._endpoint.name,
            model=self._model,
            host=self._endpoint.host,
            detail=escape_text(text, self._secrets),
            setting=setting_of(self._endpoint.name, setting) if setting else "",
            retryable=retryable,
            message=escape_text(text, self._secrets, _WORDS),
        )

    def make_status_error(
        self, status: int, headers: Mapping[str, str], body: bytes, now: float
    ) -> LlmError:
        """Make the error of an answer with a status of 300 or more; ``now`` is in seconds since the
        epoch.
        """
        if status < 400:
            return self._by_status(status, ServerWords(headers.get("location", "?")))
        wait_s = retry_after(headers, now) or asked_to_wait(body)
        return self._by_status(status, server_words(body), wait_s)

    def stream_error(self, error: object) -> LlmError:
        """Make the error of an error object in the middle of a stream."""
        words = words_of(error)
        stated = [words.code]
        if isinstance(error, dict):
            fields = cast("dict[str, Any]", error)
            stated += [str(fields.get("status_code")), str(fields.get("status"))]
        status = next((int(code) for code in stated if re.fullmatch(r"[45]\d\d", code)), 500)
        return self._by_status(status, words, asked_to_wait(words.message.encode()))

    def _by_status(self, status: int, words: ServerWords, wait_s: float | None = None) -> LlmError:
        code, setting = _code_of(status, f"{words.code} {words.message}", wait_s)
        if code == "auth" and (self._withheld or not self._key_name):
            code = "key_withheld" if self._withheld else "no_key_sent"
            setting = "allow_http_key" if self._withheld else setting
        elif code == "auth" and self._key_name.startswith(KEPT_KEY):
            code, setting = "kept_key", ""
        retryable = status in _RETRIED and code in ("rate_limited", "server_error", "loading")
        said = words.message.strip() or f"HTTP {status}"
        error = self.make_error(code, said, setting=setting, retryable=retryable)
        error.key_name = self._key_name
        error.status, error.retry_after, error.param = status, wait_s, words.param
        error.reason, error.generation = words.code, words.generation
        return error


class ServerWords(NamedTuple):
    """A server's error: message, code and the parameter it names."""

    message: str
    code: str = ""
    param: str = ""
    generation: str = ""


def server_words(body: bytes) -> ServerWords:
    """The words of an error body: those of its JSON where it is such, else the text."""
    text = body.decode("utf-8", "replace")
    try:
        data: object = jiter.from_json(body)
    except ValueError:
        title = _TITLE.search(text)
        return ServerWords(title[1] if title else text)
    if isinstance(data, list) and data:
        data = cast("list[object]", data)[0]
    if not isinstance(data, dict):
        return ServerWords(text)
    fields = cast("dict[str, Any]", data)
    found = words_of(fields.get("error") or fields)
    return found if found.message else ServerWords(text, found.code, found.param)


def words_of(error: object) -> ServerWords:
    """The words of an ``error`` value: a text, or an object with message, code, type, param."""
    if not isinstance(error, dict):
        return ServerWords("" if error is None else str(error))
    fields = cast("dict[str, Any]", error)
    message = _flatten_message(fields)
    inner = fields.get("metadata")  # a router passes on what the provider behind it said
    if isinstance(inner, dict) and (raw := cast("dict[str, Any]", inner).get("raw")):
        message = f"{message}: {raw}"
    code = fields.get("code") or fields.get("type") or ""
    if any(_WRONG_KEY.search(str(one)) for one in (fields.get("details"), message)):
        code = _INVALID_KEY
    param = fields.get("param")
    written = fields.get("failed_generation")
    return ServerWords(
        message, str(code), param if isinstance(param, str) else "",
        written if isinstance(written, str) else "",
    )  # fmt: skip


_TITLE: Final = re.compile(r"<title>\s*([^<]{1,200}?)\s*</title>", re.I)
_INVALID_KEY: Final = "invalid_api_key"


def _flatten_message(said: object) -> str:
    """The message of an error, however deep it lies; of a list each, with the field it names."""
    if isinstance(said, dict):
        fields = cast("dict[str, Any]", said)
        inner = (fields[name] for name in ("message", "detail", "msg", "error") if fields.get(name))
        words = _flatten_message(next(inner, ""))
        where = fields.get("loc")
        named = ".".join(map(str, cast("list[object]", where))) if isinstance(where, list) else ""
        return f"{named}: {words}" if named else words
    if isinstance(said, list):
        return "; ".join(_flatten_message(one) for one in cast("list[object]", said)[:5])
    return str(said)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server asks to wait, from either form of the header; None without one."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = lower.get(name, "")
        if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", value):
            return float(value) * unit
    try:
        date = parsedate_to_datetime(lower.get("retry-after", ""))
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(date.timestamp() - now, 0.0)


_TIME: Final = (
    rb"((?:\d{1,6}(?:\.\d{1,20})?\s?(?:ms|milliseconds?|hours?|minutes?|seconds?|[hms])\s?)+)"
)
_WAIT: Final = re.compile(
    rb'"retryDelay":\s*"' + _TIME + rb'"|(?:retry|try again) (?:in|after) ' + _TIME, re.I
)
_PART: Final = re.compile(rb"([\d.]+)\s?(ms|mil|h|m|s)", re.I)
_UNITS: Final = {b"ms": 0.001, b"mil": 0.001, b"h": 3600.0, b"m": 60.0, b"s": 1.0}


def asked_to_wait(body: bytes) -> float | None:
    """Seconds that the words of an error ask to wait, where no header says it."""
    if (found := _WAIT.search(body)) is None:
        return None
    parts = _PART.findall(found[1] or found[2])
    return round(sum(float(count) * _UNITS[unit.lower()] for count, unit in parts), 3)


#: Kinds of failure that the words tell, with the setting to look at; the first that fits counts.
_BY_WORDS: Final[tuple[tuple[Container[int], re.Pattern[str], ErrorCode, str], ...]] = (
    ((400, 413, 422, 500), _OVERFLOW, "context_overflow", "context"),
    ((402, 429), _QUOTA, "quota", ""),
    (range(500, 600), _LOADING, "loading", ""),
    ((400,), re.compile("reasoning_effort"), "bad_request", ""),  # a quirk, learned elsewhere
    ((400, 404), _RESPONSES, "responses_only", ""),
    ((404,), _UNLOADED, "unloaded", ""),
    ((400,), re.compile(_INVALID_KEY), "auth", "api_key_env"),
    ((400,), _FILTERED, "filtered", ""),
)
_BY_STATUS: Final[dict[int, tuple[ErrorCode, str]]] = {
    401: ("auth", "api_key_env"),
    402: ("quota", ""),
    403: ("forbidden", "api_key_env"),
    404: ("not_found", "base_url"),
    405: ("not_found", "base_url"),
    408: ("server_error", ""),
    429: ("rate_limited", ""),
}


def _code_of(status: int, words: str, wait_s: float | None) -> tuple[ErrorCode, str]:
    """The kind of failure and the setting to look at."""
    if status < 400:
        return "redirect", "base_url"
    has_quota = status == 429 and wait_s is not None  # who says when to come back has quota left
    for statuses, pattern, code, setting in _BY_WORDS:
        if status in statuses and not has_quota and pattern.search(words):
            return code, setting
    return _BY_STATUS.get(status, ("server_error" if status >= 500 else "bad_request", ""))


_UNKNOWN: Final = re.compile(
    r"\bmodel\b.{0,80}?\b(?:not found|not exist|not available|unknown|invalid|not valid)"
    r"|(?:unknown|invalid|no such|find the|not a valid) (?:requested )?model\b|model_not_found",
    re.I | re.S,
)


def names_model_or_address(error: LlmError) -> bool:
    """Whether a wrong name of the model, or a wrong address, may be behind the refusal."""
    named = error.code == "bad_request" and _UNKNOWN.search(error.message) is not None
    return named or error.code == "not_found"


class Unreadable(Exception):
    """The model gave no usable answer, repairs included; ``str()`` names the problems."""


def reason_params(error: LlmError | Unreadable) -> dict[str, str]:
    """Why there is no answer, as parameters of a notice: ``because`` is the key of a sentence."""
    if isinstance(error, Unreadable):
        return {"because": "llm.unreadable"}
    return {**error.params, "because": f"llm.error.{error.code}"}
