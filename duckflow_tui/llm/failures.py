"""From a status and a body, or a broken connection, to one LlmError in plain terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

import jiter

from duckflow_tui.llm.endpoints import Endpoint, setting_of
from duckflow_tui.llm.errors import ErrorCode, LlmError, escaped

_RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504, 529})
_OVERFLOW: Final = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|prompt is too long|input is too long"
    r"|too many (?:input )?tokens|reduce the length|exceeds? the (?:available )?context|n_ctx"
    r"|token limit exceeded|input length .{0,40}exceed",
    re.I,
)
_QUOTA: Final = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.I)
_WORDS: Final = 2000  # characters of the server's message that are kept to learn from


class FailureTeller:
    """Knows the endpoint, the model and what must be masked."""

    def __init__(self, endpoint: Endpoint, model: str, secrets: tuple[str, ...]) -> None:
        self._endpoint = endpoint
        self._model = model
        self._secrets = secrets

    def of(
        self,
        code: ErrorCode,
        detail: str | bytes = "",
        *,
        setting: str = "",
        retryable: bool = False,
        seconds: float | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        param: str = "",
    ) -> LlmError:
        """An error with this endpoint's names; ``setting`` is one of its own keys."""
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else detail
        return LlmError(
            code,
            endpoint=self._endpoint.name,
            model=self._model,
            host=self._endpoint.host,
            detail=escaped(text, self._secrets),
            setting=setting_of(self._endpoint.name, setting) if setting else "",
            retryable=retryable,
            seconds=seconds,
            status=status,
            retry_after=retry_after,
            message=escaped(text, self._secrets, _WORDS),
            param=param,
        )

    def status(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> LlmError:
        """Of an answer with a status of 300 or more; ``now`` is in seconds since the epoch."""
        words = server_words(body)
        code, setting = _code_of(status, words.everything)
        if status < 400:
            words = ServerWords(f"to {headers.get('location', 'nowhere')}")
        return self.of(
            code,
            words.message,
            setting=setting,
            retryable=status in _RETRIED and code != "quota",
            status=status,
            retry_after=retry_after(headers, now),
            param=words.param,
        )

    def stream_error(self, error: object) -> LlmError:
        """Of an error object in the middle of a stream."""
        words = words_of(error)
        status = int(words.code) if words.code.isdigit() and len(words.code) == 3 else 500
        code, setting = _code_of(max(status, 400), words.everything)
        return self.of(
            code,
            words.message,
            setting=setting,
            retryable=status in _RETRIED and code != "quota",
            status=status,
            param=words.param,
        )


class ServerWords:
    """What a server said in an error: message, code and the parameter it names."""

    def __init__(self, message: str, code: str = "", param: str = "") -> None:
        self.message = message
        self.code = code
        self.param = param

    @property
    def everything(self) -> str:
        """Message and code in one text, to look for what is meant."""
        return f"{self.code} {self.message}"


def server_words(body: bytes) -> ServerWords:
    """The words of an error body: those of its JSON where it is such, else the text."""
    text = body.decode("utf-8", "replace")
    try:
        data: object = jiter.from_json(body)
    except ValueError:
        return ServerWords(text)
    if isinstance(data, list) and data:
        data = cast("list[object]", data)[0]
    if not isinstance(data, dict):
        return ServerWords(text)
    fields = cast("dict[str, Any]", data)
    found = words_of(fields.get("error", fields))
    return found if found.message else ServerWords(text, found.code, found.param)


def words_of(error: object) -> ServerWords:
    """The words of an ``error`` value: a text, or an object with message, code, type, param."""
    if not isinstance(error, dict):
        return ServerWords("" if error is None else str(error))
    fields = cast("dict[str, Any]", error)
    message = next((fields[name] for name in ("message", "detail", "msg") if fields.get(name)), "")
    code = fields.get("code") or fields.get("type") or ""
    param = fields.get("param")
    return ServerWords(str(message), str(code), param if isinstance(param, str) else "")


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


def _code_of(status: int, words: str) -> tuple[ErrorCode, str]:
    if status < 400:
        return "redirect", "base_url"
    if status in (400, 413, 422, 500) and _OVERFLOW.search(words):
        return "context_overflow", "context"
    if status in (402, 429) and _QUOTA.search(words):
        return "quota", ""
    known: dict[int, tuple[ErrorCode, str]] = {
        401: ("auth", "api_key_env"),
        402: ("quota", ""),
        403: ("forbidden", "api_key_env"),
        404: ("not_found", "base_url"),
        405: ("not_found", "base_url"),
        408: ("server_error", ""),
        429: ("rate_limited", ""),
    }
    if status in known:
        return known[status]
    return ("server_error", "") if status >= 500 else ("bad_request", "")
