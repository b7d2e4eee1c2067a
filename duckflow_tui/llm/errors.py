"""What can go wrong with a call to a model, as one error with a code and a setting to look at.

The screen's words for a code stand in ``ui/strings/<language>/llm.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

from duckflow_tui.state.usage import LlmCall

ErrorCode = Literal[
    "no_model",  # the role has no model, or names an endpoint that is not there
    "no_key",  # the variable with the key is empty
    "bad_key",  # the key holds characters that no header can carry
    "refused_url",  # plain http to a public host
    "not_found_host",  # the name does not resolve
    "connect",
    "tls",
    "rate_limited",
    "quota",
    "server_error",
    "auth",
    "forbidden",
    "not_found",
    "bad_request",
    "context_overflow",
    "redirect",
    "html",
    "not_json",
    "too_large",
    "stalled",
    "cut",
    "empty",
    "filtered",
]
CODES: Final[tuple[str, ...]] = get_args(ErrorCode)

DETAIL: Final = 300  # characters of an answer that an error shows
MASK: Final = "•••"


class LlmError(Exception):
    """A call that brought no reply to act on.

    ``detail`` holds at most 300 characters of what the server sent, escaped, keys masked;
    ``setting`` is the dotted name of the setting to look at, empty when none would help;
    ``retry_after`` is the time in seconds that the server asked for, when it did; ``message`` and
    ``param`` are the server's own words, masked, to learn from; ``call`` is the account of the
    call, None when nothing was sent.
    """

    def __init__(
        self,
        code: ErrorCode,
        *,
        endpoint: str = "",
        model: str = "",
        host: str = "",
        detail: str = "",
        setting: str = "",
        retryable: bool = False,
        status: int | None = None,
        retry_after: float | None = None,
        seconds: float | None = None,
        message: str = "",
        param: str = "",
    ) -> None:
        super().__init__(f"{code}: {host or endpoint or 'no endpoint'}: {detail}".rstrip(": "))
        self.code: ErrorCode = code
        self.endpoint = endpoint
        self.model = model
        self.host = host
        self.detail = detail
        self.setting = setting
        self.retryable = retryable
        self.status = status
        self.retry_after = retry_after
        self.seconds = seconds
        self.message = message
        self.param = param
        self.call: LlmCall | None = None

    @property
    def params(self) -> dict[str, str]:
        """What the words for the screen are filled with."""
        return {
            "host": self.host,
            "endpoint": self.endpoint,
            "model": self.model,
            "detail": self.detail,
            "setting": self.setting,
            "status": "" if self.status is None else str(self.status),
            "seconds": "" if self.seconds is None else f"{self.seconds:.0f}",
        }


def escaped(text: str, secrets: Iterable[str] = (), limit: int = DETAIL) -> str:
    """The beginning of a text that is not trusted, on one line, nothing in it able to act.

    Secrets are masked before the cut, so that no part of one survives at the edge.
    """
    window = text[: limit * 8]
    for secret in secrets:
        if secret:
            window = masked(window, secret)
    flat = " ".join(window.split())
    safe = "".join(char if char.isprintable() else _spelled(char) for char in flat[:limit])
    return safe[:limit]


def masked(text: str, secret: str) -> str:
    """The text without the secret, also where only its beginning made it to the end."""
    text = text.replace(secret, MASK)
    for length in range(len(secret) - 1, 3, -1):
        if text.endswith(secret[:length]):
            return text[:-length] + MASK
    return text


def _spelled(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
