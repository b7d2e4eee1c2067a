"""Repair a server's answers before the SDK reads them. The SDK refuses an answer as a whole, so
that one odd tool would cost all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from duckflow_tui.state.base import JsonObject

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage


#: Methods that list something, by the member of the answer that holds the items.
_LISTS: Final = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}


def mend_answer(answer: JsonObject, version: str) -> list[str]:
    """Change an answer in place so that the SDK can read it under this version of the protocol;
    return the names of the list items that had to be removed.

    Output schemas are dropped, since results are not checked. A structured result that is no object
    becomes the member ``result`` of one, as with servers of the older protocol.
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
    """Whether the SDK can read this answer to a request of this method."""
    from mcp.types.methods import parse_server_result

    try:
        parse_server_result(method, version, answer)
    except (ValidationError, RecursionError):
        return False
    except KeyError:
        return True  # this version has no such request
    return True


@asynccontextmanager
async def mend_messages(
    messages: ReadStream[SessionMessage | Exception], mend: Callable[[JsonObject], None]
) -> AsyncGenerator[ReadStream[SessionMessage | Exception]]:
    """Yield the stream of a server's messages in which each answer has been passed through
    ``mend``.
    """
    import anyio
    from mcp.shared.message import SessionMessage

    inbox, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def pass_on() -> None:
        """Pass the messages on until the stream ends."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with inbox:
                async for item in messages:
                    answer: Any = getattr(getattr(item, "message", None), "result", None)
                    if isinstance(answer, dict):
                        mend(cast("JsonObject", answer))
                    await inbox.send(item)

    passing = asyncio.create_task(pass_on(), name="mcp answers")
    try:
        yield read
    finally:
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
        read.close()
