"""Failures of model calls as one exception type, with a code and the setting to check.

The words for the screen are in ``words/<language>/llm.toml``.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, NamedTuple, cast
from urllib.parse import urljoin, urlsplit

import jiter

from duckflow_tui.llm.endpoints import KEPT_KEY, Endpoint, origin_of, setting_of
from duckflow_tui.state.base import escape_unprintable
from duckflow_tui.state.usage import LlmCall

ErrorCode = Literal[
    "no_model",  # the role has no model, or names an endpoint that is not there
    "no_key",  # the variable with the key is empty
    "no_kept_key",  # the key that the program keeps cannot be read
    "kept_key",  # the server does not accept that one
    "no_key_sent",  # the server requires a key, and none was sent
    "key_withheld",  # the server requires a key, which may not be sent over plain http
    "no_access",  # the key is good, but not for this model
    "region",  # the server does not serve the place that the request comes from
    "privacy",  # no provider of the model fits the account's settings of privacy
    "bad_key",  # the key holds characters that no header can carry
    "refused_url",  # plain http to a public host
    "not_found_host",  # the name does not resolve
    "unknown_model",  # the server has others; ``detail`` names some
    "loading",  # the model is not in memory yet
    "unloaded",  # the server has no model loaded and does not load one by itself
    "wait_asked",  # it takes requests again at ``until``, which is too late to wait here
    "used_up",  # a limit of hours or days is used up; the reset time is unknown
    "output_limit",  # it gives shorter replies only; ``limits`` says how long
    "wants_https",  # the request was plain http
    "wants_http",  # the request was https, the server only speaks http
    "untrusted",  # its certificate is of an authority that nobody here knows
    "moved",  # to ``detail``, at the same host
    "no_list",  # its list of models did not come within ``seconds``
    "closed",  # the connection ended before an answer began
    "proxy_closed",  # the same, by way of a proxy
    "proxy_login",  # the proxy requires another user or password
    "proxy_refused",  # the proxy does not let requests to this host through
    "proxy_failed",  # the proxy did not reach the host
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


class TokenLimits(NamedTuple):
    """Token counts named by an error; 0 for those it does not name."""

    window: int = 0  # of request and reply together
    asked: int = 0  # of the request, as the server counts it
    output: int = 0  # most of a reply


@dataclass(eq=False)
class LlmError(Exception):
    """A model call that failed.

    ``detail``: at most 300 characters of the server's message, escaped, secrets masked;
    ``setting``: dotted name of the setting to check, empty if none would help; ``retry_after``:
    seconds that the server asked to wait, or None; ``message``, ``param`` and ``reason``: the
    server's message, parameter and code, to learn quirks from; ``generation``: the model's output
    that the server refused as a call; ``call``: the account of the call, None if nothing was sent.
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
    limits: TokenLimits = field(default_factory=TokenLimits)  # that the server named
    until: float | None = None  # seconds since the epoch, from when on it takes requests again
    call: LlmCall | None = None

    def __str__(self) -> str:
        where = self.host or self.endpoint or "no endpoint"
        return f"{self.code}: {where}: {self.detail}".rstrip(": ")

    @property
    def params(self) -> dict[str, str]:
        """The parameters for the screen text."""
        return {
            "host": self.host,
            "endpoint": self.endpoint,
            "model": self.model,
            "detail": self.detail.rstrip(".。"),  # the sentence around it has its own full stop
            "setting": self.setting,
            "variable": self.key_name,
            "status": "" if self.status is None else str(self.status),
            "seconds": "" if self.seconds is None else f"{self.seconds:.0f}",
            "tokens": f"{self.limits.output or self.limits.window:,}",
            "until": _format_time(self.until),
        }


def escape_text(text: str, secrets: Iterable[str] = (), limit: int = DETAIL) -> str:
    """Return the beginning of an untrusted text on one line with control characters escaped.
    Secrets are masked before cutting, so that no part of one remains at the end.
    """
    window = text[: limit * 8]
    for secret in secrets:
        if secret:
            window = mask_secret(window, secret)
    flat = " ".join(window.split())
    return escape_unprintable(flat[:limit])[:limit]


def mask_secret(text: str, secret: str) -> str:
    """Mask a secret in a text, also one cut off at the end of the text; a long one also in other
    case, spaced out, reversed, in base64 or hexadecimal.
    """
    text = _without_forms(text.replace(secret, MASK), secret)
    for length in range(min(len(secret) - 1, len(text)), 3, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + MASK
    return text


def _without_forms(text: str, secret: str) -> str:
    """Mask forms of a secret that differ in case, punctuation, order or encoding."""
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


def _format_time(at: float | None) -> str:
    """Format seconds since the epoch as the local date and time; empty for None."""
    if at is None:
        return ""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


_NUMBER: Final = r"`?(?<![\w.-])(\d{3,12}|\d{1,3}(?:,\d{3})+)(?![\w-])"
_BETWEEN: Final = r"(?:(?!['\"], ).){0,40}?"  # within one field of the error
#: Before or behind the most tokens that an error allows, tried in this order.
_BOUNDS: Final = (
    rf"(?:>|\bn_ctx\W{{1,3}}|afford|at most|less than|equal to|<=|\[\d+,) ?{_NUMBER}",
    rf"context[_ ](?:length|size|window){_BETWEEN}{_NUMBER}",
    rf"(?:\bmax(?!\w* (?:output|completion))|limit(?! exceeded by)){_BETWEEN}{_NUMBER}",
    rf"{_NUMBER} maximum",
)
#: Behind, before or around the tokens of the request.
_ASKED: Final = (
    rf"{_NUMBER} (?:of text input|in the messages|input tokens|tokens from the input|`inputs`)",
    rf"{_NUMBER}(?: tokens)?\)? (?:>|\+|exceeds|is longer)",
    rf"(?:requested|n_prompt_tokens)\W{{1,3}}{_NUMBER}",
)


def read_limits(source: str, *, is_of_reply: bool) -> TokenLimits:
    """Read token counts from the text of an error that says what is too long: the whole request or,
    with ``is_of_reply``, the reply.
    """

    def find_number(patterns: Sequence[str]) -> int:
        """Return the number of the first pattern that matches, else 0."""
        found = (re.search(pattern, source, re.I) for pattern in patterns)
        return next((int(match[1].replace(",", "")) for match in found if match), 0)

    bound = find_number(_BOUNDS)
    if is_of_reply:
        return TokenLimits(output=bound)
    return TokenLimits(window=bound, asked=find_number(_ASKED))


class FailureCause(NamedTuple):
    """A row of the table of causes: which answers match it, and whether to retry. The text for the
    user is ``llm.error.CODE``.
    """

    code: ErrorCode
    statuses: Container[int]
    words: str = ""  # a pattern for the server's code and message; empty where the status tells it
    setting: str = ""  # key of the endpoint to look at
    is_retried: bool = False  # the same request may succeed a little later


_ANY: Final = range(400, 600)
_LIMIT: Final = (400, 402, 403, 412, 429, 500)
_INVALID_KEY: Final = "invalid_api_key"
#: How servers say that a model only speaks the Responses API.
WANTS_RESPONSES: Final = (
    r"v1/responses|not a chat model|only (?:be )?(?:used|supported) (?:with|in) the responses"
    r"|chatcompletion operation does not work"
)
#: The first row that fits counts.
CAUSES: Final = (
    FailureCause("quota", (402,), r"can only afford \d{1,3}\b"),
    FailureCause("output_limit", (400, 402, 413, 422),
          r"can only afford|max(?:_completion|_output)?_tokens\b.{0,80}?(?:\[\d+, ?\d+\]|: \d+ > \d"
          r"|less than or equal|at most)|at most \d+ (?:completion|output) tokens"
          r"|maximum tokens you requested", "max_output"),
    FailureCause("context_overflow", (400, 413, 422, 500),
          r"context[_ ](?:length|window|size|limit)|n_ctx|max_seq_len|tokens? limit"
          r"|input token count|\b(?:prompt|inputs?)\b`? (?:is |tokens |length )?(?:too long|exceeds"
          r"|must have less|\+)|\b(?:prompt|input) length\b.{0,40}?\d{3}"
          r"|too many (?:input )?tokens|(?:request|body) too large|reduce (?:the length|your mess)",
          "context"),
    FailureCause("context_overflow", (402, 429),
          r"prompt tokens limit exceeded|request too large", "context"),
    FailureCause("quota", _LIMIT,
          r"insufficient[_ ](?:quota|balance|credits?)|exceeded your current quota|\bbilling\b"
          r"|budget_exceeded|exceeded ?budget|budget has been exceeded|no resource package"
          r"|(?:account|credit|your) balance is|requires more credits|余额不足|spending limit"
          r"|key limit exceeded|good standing|package has expired"),
    FailureCause("used_up", (400, 402, 403, 412, 429),
          r"per[- ]day\b|\bdaily\b|per[- ]week\b|usage limit|weekly limit|使用上限|^13(?:08|10)\b"),
    FailureCause("loading", range(500, 600),
          r"loading (?:the )?model|\bmodel\b.{0,80}? is (?:\w+ )?loading", is_retried=True),
    FailureCause("region", (400, 403, 451),
          r"unsupported_country|country, region|location is not supported|not available in your"
          r" (?:country|region)"),
    FailureCause("privacy", (404,), r"data policy|guardrail restrictions"),
    FailureCause("filtered", (400, 403, 451),
          r"\bcontent_filter\b|content management policy|\bflagged\b|moderation|content_policy"
          r"|data_inspection_failed|sensitive content|敏感内容|violates usage guidelines"),
    FailureCause("filtered", (451,)),
    FailureCause("no_access", (401, 403, 429),
          r"model_access_denied|not allowed to access model|(?:not|n['’]t) have access to (?:the )?"
          r"model|not yet include access"),
    FailureCause("wants_https", (400,),
          r"plain HTTP request was sent to HTTPS|HTTP request to an HTTPS|plain HTTP to an SSL",
          "base_url"),
    FailureCause("bad_request", (400,), "reasoning_effort"),  # a quirk, learned elsewhere
    FailureCause("responses_only", (400, 404), WANTS_RESPONSES),
    FailureCause("unloaded", (400, 404),
          r"no models? (?:is |are )?loaded|model (?:is not |un)loaded"),
    FailureCause("auth", (400,), _INVALID_KEY, "api_key_env"),
    FailureCause("redirect", range(300, 400), setting="base_url"),
    FailureCause("auth", (401,), setting="api_key_env"),
    FailureCause("quota", (402,)),
    FailureCause("forbidden", (403,), setting="api_key_env"),
    FailureCause("not_found", (404, 405), setting="base_url"),
    FailureCause("rate_limited", (429,), is_retried=True),
    FailureCause("server_error", (408, 424, 498), is_retried=True),
    FailureCause("server_error", (501, 505, 525, 526)),
    FailureCause("server_error", range(500, 600), is_retried=True),
    FailureCause("bad_request", _ANY),
)  # fmt: skip


def find_cause(status: int, words: str, wait_s: float | None = None) -> FailureCause:
    """Find the row that matches an error answer. ``words``: the server's code and message;
    ``wait_s``: seconds that the server asked to wait. Raises ValueError if no row matches the
    status.
    """
    for cause in CAUSES:
        # Who says when to come back has quota left.
        is_wait = wait_s is not None and cause.code in ("quota", "used_up")
        fits = status in cause.statuses and not (is_wait and status == 429)
        if fits and (not cause.words or re.search(cause.words, words, re.I | re.S)):
            return cause
    raise ValueError(f"{status} is no status of an error")


_WRONG_KEY: Final = re.compile(
    r"API_KEY_INVALID|api key not valid|invalid_api_key|incorrect api key", re.I
)
_WORDS: Final = 2000  # characters of the server's message that are kept to learn from


@dataclass(frozen=True, slots=True)
class FailureTeller:
    """Makes the LlmErrors of one endpoint and model; ``_secrets`` are masked in their texts."""

    _endpoint: Endpoint
    _model: str
    _secrets: tuple[str, ...]
    _key_name: str = ""  # the variable that the key came from
    _withheld: bool = False  # it may not be sent to this address

    @property
    def host(self) -> str:
        """The endpoint's host, for display."""
        return self._endpoint.host

    def make_error(
        self,
        code: ErrorCode,
        detail: str | bytes = "",
        *,
        setting: str = "",
        retryable: bool = False,
    ) -> LlmError:
        """Make an error with the endpoint's names; ``setting`` is the key of one of its
        settings.
        """
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
        """Make the error of an answer with status 300 or more. ``retry_after`` is the wait that its
        headers or words ask for, if any; ``now`` is in seconds since the epoch.
        """
        if status < 400:
            lower = {name.lower(): value for name, value in headers.items()}
            return self._make_redirect_error(status, lower.get("location") or "?")
        words = server_words(body)
        wait_s = retry_after(headers, now) or read_stated_wait(body)
        if not wait_s and status == 429:
            wait_s = seconds_to_reset({**headers, **words.headers}, now)
        return self._by_status(status, words, wait_s)

    def stream_error(self, error: object) -> LlmError:
        """Make the error of an error object within a stream. If the object names no status, the
        cause is looked up as for 500, and ``status`` is None.
        """
        words = words_of(error)
        stated = words.code.split()
        if isinstance(error, dict):
            fields = cast("dict[str, Any]", error)
            stated += [str(fields.get("status_code")), str(fields.get("status"))]
        status = next((int(code) for code in stated if re.fullmatch(r"[45]\d\d", code)), None)
        made = self._by_status(status or 500, words, read_stated_wait(words.message.encode()))
        made.status = status
        return made

    def _make_redirect_error(self, status: int, location: str) -> LlmError:
        """Make the error of a redirect: ``moved`` if it stays within the origin or only upgrades to
        https, so that the address can be corrected; else ``redirect``.
        """
        endpoint = self._endpoint
        target = urljoin(f"{endpoint.base_url}/chat/completions", location)
        parts = urlsplit(target)
        is_upgrade = not endpoint.is_https and parts.scheme == "https"
        is_upgrade = is_upgrade and parts.hostname == endpoint.hostname
        if not is_upgrade and (location == "?" or origin_of(target) != endpoint.origin):
            return self._by_status(status, ServerWords(location))
        error = self.make_error("moved", target, setting="base_url")
        error.status = status
        return error

    def _by_status(self, status: int, words: ServerWords, wait_s: float | None = None) -> LlmError:
        """Make an error from the status and words of the server, by the table of causes."""
        cause = find_cause(status, f"{words.code} {words.message}", wait_s)
        code, setting = cause.code, cause.setting
        if code == "auth" and (self._withheld or not self._key_name):
            code = "key_withheld" if self._withheld else "no_key_sent"
            setting = "allow_http_key" if self._withheld else setting
        elif code == "auth" and self._key_name.startswith(KEPT_KEY):
            code, setting = "kept_key", ""
        said = words.message.strip() or f"HTTP {status}"
        error = self.make_error(code, said, setting=setting, retryable=cause.is_retried)
        error.key_name = self._key_name
        error.status, error.retry_after, error.param = status, wait_s, words.param
        error.reason, error.generation = words.code, words.generation
        error.limits = read_limits(words.source or said, is_of_reply=code == "output_limit")
        return error


class ServerWords(NamedTuple):
    """The parts of a server's error: message, codes separated by spaces, parameter, the model's
    refused output, the whole error as it came, and headers passed on from a server behind it.
    """

    message: str
    code: str = ""
    param: str = ""
    generation: str = ""
    source: str = ""
    headers: Mapping[str, str] = {}


def server_words(body: bytes) -> ServerWords:
    """Parse the body of an error answer, of a list its first entry. A body that is not JSON becomes
    the message, of a web page only its title.
    """
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
    inner = fields.get("error")
    found = words_of(cast("object", inner) if isinstance(inner, dict) else fields)
    return found if found.message else found._replace(message=text)


def words_of(error: object) -> ServerWords:
    """Parse an ``error`` value: a text, or an object with message, code, type, param. The message
    of a provider behind a router is appended to the router's; an error that names the key as wrong
    gets the code ``invalid_api_key``.
    """
    if not isinstance(error, dict):
        return ServerWords("" if error is None else str(error))
    fields = cast("dict[str, Any]", error)
    message = _flatten_message(fields)
    about = fields.get("metadata")  # a router passes on its provider's error
    inner = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    if raw := inner.get("raw"):
        message = f"{message}: {server_words(str(raw).encode()).message}"
    code = " ".join(str(fields[name]) for name in ("code", "type") if fields.get(name))
    if any(_WRONG_KEY.search(str(one)) for one in (fields.get("details"), message)):
        code = _INVALID_KEY
    param, written = fields.get("param"), fields.get("failed_generation")
    headers = inner.get("headers")
    return ServerWords(
        message,
        code,
        param if isinstance(param, str) else "",
        written if isinstance(written, str) else "",
        str(fields),
        cast("dict[str, str]", headers) if isinstance(headers, dict) else {},
    )


_TITLE: Final = re.compile(r"<title>\s*([^<]{1,200}?)\s*</title>", re.I)


#: Where servers write the message of an error: ``errors`` at Cloudflare, the last two at MiniMax.
_MESSAGES: Final = ("message", "detail", "msg", "error", "errors", "base_resp", "status_msg")


def _flatten_message(value: object) -> str:
    """Return the message of an error, however deeply nested, also inside JSON text; messages of a
    list are joined, each with the field it names.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        inner = (fields[name] for name in _MESSAGES if fields.get(name))
        words = _flatten_message(next(inner, ""))
        where = fields.get("loc")
        named = ".".join(map(str, cast("list[object]", where))) if isinstance(where, list) else ""
        return f"{named}: {words}" if named else words
    if isinstance(value, list):
        return "; ".join(_flatten_message(one) for one in cast("list[object]", value)[:5])
    text = str(value)
    with suppress(ValueError):
        inner: object = jiter.from_json(text.encode()) if text.startswith("{") else None
        return (_flatten_message(cast("object", inner)) if isinstance(inner, dict) else "") or text
    return text


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that ``retry-after-ms`` or ``retry-after`` asks to wait, the latter as a
    number or a date; None without one or in another form.
    """
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


def seconds_to_reset(headers: Mapping[str, object], now: float) -> float | None:
    """Return the seconds until a rate limit resets, at least 0, from ``x-ratelimit-reset`` in
    seconds or milliseconds since the epoch; None without it or in another form.
    """
    lower = {name.lower(): str(value) for name, value in headers.items()}
    value = lower.get("x-ratelimit-reset", "")
    if not re.fullmatch(r"\d{10}(?:\d{3})?", value):
        return None
    return max(float(value[:10]) - now, 0.0)


_TIME: Final = (
    rb"((?:\d{1,6}(?:\.\d{1,20})?\s?"
    rb"(?:ms|milliseconds?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])\s?)+)"
)
_WAIT: Final = re.compile(
    rb'"retryDelay":\s*"' + _TIME + rb'"|(?:retry|try again|please wait)(?: in| after)? ' + _TIME,
    re.I,
)
_PART: Final = re.compile(rb"([\d.]+)\s?(ms|mil|h|m|s)", re.I)
_UNITS: Final = {b"ms": 0.001, b"mil": 0.001, b"h": 3600.0, b"m": 60.0, b"s": 1.0}


def read_stated_wait(body: bytes) -> float | None:
    """Return the seconds that the text of an error asks to wait; None unless it names a time."""
    if (found := _WAIT.search(body)) is None:
        return None
    parts = _PART.findall(found[1] or found[2])
    return round(sum(float(count) * _UNITS[unit.lower()] for count, unit in parts), 3)


_UNKNOWN: Final = re.compile(
    r"\bmodel\b.{0,80}?\b(?:not found|not exist|not available|unknown|invalid|not valid)"
    r"|(?:unknown|invalid|no such|find the|not a valid) (?:requested )?model\b|model_not_found",
    re.I | re.S,
)


def names_model_or_address(error: LlmError) -> bool:
    """Whether an error may be caused by a wrong model name or address."""
    named = error.code == "bad_request" and _UNKNOWN.search(error.message) is not None
    return named or error.code == "not_found"


class Unreadable(Exception):
    """Raised when a model gave no usable answer, even after repairs; ``str()`` lists the
    problems.
    """


def reason_params(error: LlmError | Unreadable) -> dict[str, str]:
    """Return the parameters of a notice that say why there is no answer; ``because`` is the key of
    a sentence.
    """
    if isinstance(error, Unreadable):
        return {"because": "llm.unreadable"}
    return {**error.params, "because": f"llm.error.{error.code}"}
