"""What an origin and model turned out to accept, remembered for the session."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from duckflow_tui.llm.codec_json import JsonRung
from duckflow_tui.llm.endpoints import Protocol
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.state.base import JsonObject

Rung = Literal["tools", "json_schema", "json_object", "text"]

_NAMED: Final = (400, 422)  # statuses whose message names what was refused
_LATE: Final = (404, 500, 501)  # some servers answer so for native calls, in these very words
_TOOLS: Final = re.compile(r"\btools?\b|tool[_ ]?(?:choice|use|call)|function[_ ]?call", re.I)
_NO_TOOLS: Final = re.compile(
    r"support(?:s|ed|ing)? (?:\w+ )?(?:tool|function)|tools? (?:param\w*|use|calling|are|is)\b"
    r".{0,40}(?:support|requires|enabled|--jinja)",
    re.I,
)
_FORMAT: Final = re.compile(
    r"response[_ ]?format|json[_ ]?(?:schema|object|mode)|structured output|grammar|guided", re.I
)
_DROPPABLE: Final = (
    "stream_options",
    "temperature",
    "reasoning_effort",
    "max_completion_tokens",
    "max_tokens",
)
_SWAP: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_STEPS: Final[dict[Rung, JsonRung]] = {
    "tools": "json_schema",
    "json_schema": "json_object",
    "json_object": "text",
}


@dataclass(slots=True)
class Learned:
    """Starts with all it could be; only ever gets smaller."""

    tools: bool = True
    json: JsonRung = "json_schema"
    dropped: set[str] = field(default_factory=set[str])
    limit_name: str = "max_tokens"

    def rung(self, protocol: Protocol, *, calls: bool) -> Rung:
        """Where the next request starts; ``calls`` is false for what is JSON anyway."""
        if not calls or protocol == "json" or (protocol == "auto" and not self.tools):
            return self.json
        return "tools"

    def learn(self, error: LlmError, body: JsonObject, rung: Rung, protocol: Protocol) -> bool:
        """Whether the refusal taught something, so that asking again makes sense."""
        if error.code not in ("bad_request", "not_found", "server_error"):
            return False
        if error.status in _NAMED and (name := self._parameter(error, body)):
            self._drop(name)
            return True
        return self._step_down(error, rung, protocol)

    def _parameter(self, error: LlmError, body: JsonObject) -> str:
        """The parameter of this request that the message names."""
        sent = [name for name in body if name in _DROPPABLE]
        extra = [name for name in body if name not in _DROPPABLE and name not in _FIXED]
        candidates = sent + extra
        if (root := error.param.split(".")[0]) in candidates:
            return root
        for name in sorted(candidates, key=len, reverse=True):
            if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", error.message):
                return name
        return ""

    def _drop(self, name: str) -> None:
        self.dropped.add(name)
        swapped = _SWAP.get(name)
        if swapped is not None and swapped not in self.dropped:
            self.limit_name = swapped

    def _step_down(self, error: LlmError, rung: Rung, protocol: Protocol) -> bool:
        words = f"{error.param} {error.message}"
        if rung == "tools":
            pattern = _TOOLS if error.status in _NAMED else _NO_TOOLS
            if protocol == "tools" or error.status not in (*_NAMED, *_LATE):
                return False
            if not pattern.search(words):
                return False
            self.tools = False
            return True
        if rung == "text" or error.status not in _NAMED or not _FORMAT.search(words):
            return False
        self.json = _STEPS[rung]
        return True


def refuses_tools(error: LlmError) -> bool:
    """Whether a server error says that native calls are not to be had; retrying is no use."""
    return error.status in _LATE and _NO_TOOLS.search(error.message) is not None


_FIXED: Final = frozenset({"model", "messages", "stream", "tools", "response_format"})
