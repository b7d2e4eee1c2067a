"""Repair a server's answers before the SDK reads them. The SDK refuses an answer as a whole, so
that one odd tool would cost all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from duckflow_tui.state.base import ELLIPSIS, JsonObject
from duckflow_tui.tools.mcp.config import printable_line
from duckflow_tui.tools.mcp.schemas import LeftOut

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream
    from mcp.shared.message import SessionMessage


MAX_ITEMS: Final = 2_000  # items of a list that are read
_MAX_BLOCKS: Final = 10_000  # content blocks of a tool result
MAX_VALUES: Final = 50_000  # JSON values of a message, without its structured result
_NAMED: Final = 10  # items beyond MAX_ITEMS that are named

#: For each list of the SDK: the member of the answer that holds the items, and the method.
_LISTS: Final = {
    "tools": ("tools", "tools/list"),
    "resources": ("resources", "resources/list"),
    "resource_templates": ("resourceTemplates", "resources/templates/list"),
    "prompts": ("prompts", "prompts/list"),
}


class Refused(Exception):
    """Raised for an answer that is too large to be read; the text says why."""


def count_values(message: JsonObject, most: int = MAX_VALUES) -> int:
    """Return the number of JSON values in a message, without its structured result. Counting stops
    above ``most``.
    """
    count, stack = 0, [value for key, value in message.items() if key != "structuredContent"]
    while stack and count <= most:
        node: object = stack.pop()
        count += 1
        if isinstance(node, dict):
            node = list(cast("JsonObject", node).values())
        if isinstance(node, list):
            inner = cast("list[object]", node)
            stack.extend(inner[: most + 1])
    return count


def mend_result(answer: JsonObject) -> None:
    """Change a tool result in place so that the SDK can read it quickly.

    A structured result that is no object becomes the member ``result`` of one, as with servers of
    the older protocol. A result of more than _MAX_BLOCKS texts becomes one text, in which the model
    is told them anyway.
    """
    if "structuredContent" in answer and not isinstance(answer["structuredContent"], dict):
        value = answer.pop("structuredContent")
        if value is not None:
            answer["structuredContent"] = {"result": value}
    content: object = answer.get("content")
    if isinstance(content, list):
        blocks = cast("list[object]", content)
        texts = [text for block in blocks if (text := _text_of(block)) is not None]
        if len(texts) == len(blocks) > _MAX_BLOCKS:
            answer["content"] = [{"type": "text", "text": "\n".join(texts)}]


def _text_of(block: object) -> str | None:
    """Return the text of a block of a result; None where it is no text."""
    fields = cast("JsonObject", block) if isinstance(block, dict) else {}
    text: object = fields.get("text")
    return text if fields.get("type") == "text" and isinstance(text, str) else None


def mend_list(answer: JsonObject, asked_for: str, version: str) -> list[LeftOut]:
    """Change a list in place so that the SDK can read it under this version of the protocol; return
    the removed items: those that it cannot read, those that exceed MAX_VALUES, and all beyond
    MAX_ITEMS. ``asked_for`` is a key of _LISTS. Slow: call it in a thread.

    Output schemas are dropped, since results are not checked.
    """
    member, method = _LISTS[asked_for]
    items: object = answer.get(member)
    frame: JsonObject = {**answer, member: []}
    size = count_values(frame, MAX_ITEMS)
    if not isinstance(items, list) or size > MAX_ITEMS or not _is_readable(frame, method, version):
        return []
    room = MAX_VALUES - size
    each = cast("list[Any]", items)
    kept: list[Any] = []
    left_out: list[LeftOut] = []
    for item in each[:MAX_ITEMS]:
        fields = cast("JsonObject", item) if isinstance(item, dict) else {}
        fields.pop("outputSchema", None)
        size = count_values(fields, room)
        if size <= room and _is_readable({**frame, member: [item]}, method, version):
            room -= size
            kept.append(item)
        else:
            left_out.append(LeftOut(_name_item(cast("object", item)), "schema"))
    answer[member] = kept
    if rest := each[MAX_ITEMS:]:
        names = ", ".join(map(_name_item, rest[:_NAMED]))
        left_out.append(LeftOut(names, "many", len(rest)))
    return left_out


def _name_item(item: object) -> str:
    """Return the name of an item of a list, made visible; an ellipsis where it has none."""
    name: object = cast("JsonObject", item).get("name") if isinstance(item, dict) else item
    return printable_line(name, 60) if isinstance(name, str) else ELLIPSIS


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
    messages: ReadStream[SessionMessage | Exception], mend: Callable[[JsonObject], Awaitable[None]]
) -> AsyncGenerator[ReadStream[SessionMessage | Exception]]:
    """Yield the stream of a server's messages in which each answer has been passed through
    ``mend``. An answer for which it raises Refused is replaced by an error; requests and
    notifications of more than MAX_VALUES values are dropped.
    """
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp.types import ErrorData
    from mcp.types.jsonrpc import INTERNAL_ERROR, JSONRPCError, JSONRPCResponse

    inbox, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def pass_on() -> None:
        """Pass the messages on until the stream ends."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with inbox:
                async for item in messages:
                    message: Any = getattr(item, "message", None)
                    if isinstance(message, JSONRPCResponse):
                        try:
                            await mend(message.result)
                        except Refused as refused:
                            error = ErrorData(code=INTERNAL_ERROR, message=str(refused))
                            item = SessionMessage(
                                JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
                            )
                    elif count_values(getattr(message, "params", None) or {}) > MAX_VALUES:
                        continue
                    await inbox.send(item)

    passing = asyncio.create_task(pass_on(), name="mcp answers")
    try:
        yield read
    finally:
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
        read.close()
