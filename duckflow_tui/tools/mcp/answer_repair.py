"""Answers of a server that break the protocol in a place that need not matter, mended before the
SDK reads them: it refuses an answer as a whole, so that one odd tool would take all others with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self, cast

from pydantic import ValidationError

from duckflow_tui.state.base import JsonObject

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage


#: The lists that a server is asked for, by the member of the answer that holds the items.
_LISTS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}


def mend_answer(answer: JsonObject, version: str) -> list[str]:
    """Change an answer in place so that the SDK can read it; returns the names of the items that
    were taken out of a list, because this version of the protocol knows nothing like them.

    Descriptions of output are dropped: nothing is checked by them. A structured result that is no
    object becomes the member ``result`` of one, as servers of the older protocol do it.
    """
    if "structuredContent" in answer and not isinstance(answer["structuredContent"], dict):
        value = answer.pop("structuredContent")
        if value is not None:
            answer["structuredContent"] = {"result": value}
    odd: list[str] = []
    for member, method in _LISTS.items():
        items: object = answer.get(member)
        if not isinstance(items, list) or not _is_readable({**answer, member: []}, method, version):
            continue
        kept: list[Any] = []
        for item in cast("list[Any]", items):
            fields = cast("JsonObject", item) if isinstance(item, dict) else {}
            fields.pop("outputSchema", None)
            if _is_readable({**answer, member: [item]}, method, version):
                kept.append(item)
            else:
                odd.append(str(fields.get("name", item))[:200])
        answer[member] = kept
    return odd


def _is_readable(answer: JsonObject, method: str, version: str) -> bool:
    """Whether the SDK takes this answer to such a request."""
    from mcp.types.methods import parse_server_result

    try:
        parse_server_result(method, version, answer)
    except (ValidationError, RecursionError):
        return False
    except KeyError:
        return True  # that version has no such request
    return True


class MendedMessages:
    """The messages that come from a server, with each answer passed through ``mend`` first."""

    def __init__(
        self,
        messages: ReadStream[SessionMessage | Exception],
        mend: Callable[[JsonObject], None],
    ) -> None:
        self._messages = messages
        self._mend = mend

    async def receive(self) -> SessionMessage | Exception:
        """The next message; raises as the stream does that it comes from."""
        return self._mended(await self._messages.receive())

    async def __anext__(self) -> SessionMessage | Exception:
        return self._mended(await anext(self._messages))

    def _mended(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        answer: Any = getattr(getattr(item, "message", None), "result", None)
        if isinstance(answer, dict):
            self._mend(cast("JsonObject", answer))
        return item

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Close the stream that the messages come from."""
        await self._messages.aclose()

    async def __aenter__(self) -> Self:
        await self._messages.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._messages.__aexit__(exc_type, exc_val, exc_tb)
