"""Convert results of servers' tools, resources and prompts into output for models."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from duckflow_tui.state.base import JsonObject
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.mcp.config import make_harmless, printable_line
from duckflow_tui.tools.operation import Output
from duckflow_tui.tools.pictures import find_image_kind

if TYPE_CHECKING:
    from mcp import types


def read_result(result: types.CallToolResult) -> Output:
    """Return a tool's result: structured content as JSON, then the texts that do not repeat it, and
    pictures that models can be shown. The text is empty where the server returned nothing.
    """
    parts: list[str] = []
    images: list[bytes] = []
    structured: Any = result.structured_content
    if structured is not None:
        parts.append(json.dumps(structured, ensure_ascii=False))
    blocks = [block for block in result.content if not _repeats_structured(block, structured)]
    if structured is not None and _are_its_items(result.content, structured):
        blocks = []
    parts.extend(_read_block(block, images) for block in blocks)
    return Output(make_harmless("\n".join(parts)), images=tuple(images))


def read_contents(result: types.ReadResourceResult) -> Output:
    """Return a resource's texts, each below its address, and its pictures; of other data only the
    kind and size. The text is empty where there is nothing.
    """
    images: list[bytes] = []
    parts = [_read_resource(contents, images) for contents in result.contents]
    return Output(make_harmless("\n".join(parts)), images=tuple(images))


def prompt_text(result: types.GetPromptResult) -> str:
    """Return the messages of a prompt as one text; those of the assistant are marked."""
    parts: list[str] = []
    for message in result.messages:
        text = _read_block(message.content, [])
        parts.append(text if message.role == "user" else f"Assistant: {text}")
    return make_harmless("\n\n".join(parts))


def _repeats_structured(block: types.ContentBlock, structured: Any) -> bool:
    """Whether a text repeats the structured content, as servers do for old clients."""
    if structured is None or block.type != "text":
        return False
    inner = _unwrap_result(structured)
    if block.text == inner:
        return True
    try:
        value: Any = json.loads(block.text)
    except (ValueError, RecursionError):
        return False
    return bool(value in (structured, inner))


def _are_its_items(blocks: Sequence[types.ContentBlock], structured: Any) -> bool:
    """Whether the texts are the items of the structured content's list, one each."""
    items = _unwrap_result(structured)
    if not isinstance(items, list):
        return False
    each = cast("list[Any]", items)
    return len(blocks) == len(each) and all(map(_repeats_structured, blocks, each))


def _unwrap_result(structured: Any) -> Any:
    """Return the value of an object's only member ``result``; anything else unchanged."""
    if isinstance(structured, dict):
        table = cast("JsonObject", structured)
        return table["result"] if list(table) == ["result"] else table
    return structured


def _read_block(block: types.ContentBlock, images: list[bytes]) -> str:
    """Return the text of a block; its picture, if any, is added to ``images``."""
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{_read_data(block.mime_type, block.data, images)}]"
        case "resource_link":
            return f"[resource {printable_line(block.name, 80)}: {printable_line(str(block.uri))}]"
        case "resource":
            return _read_resource(block.resource, images)


def _read_resource(
    resource: types.TextResourceContents | types.BlobResourceContents, images: list[bytes]
) -> str:
    """Return an embedded resource as text; a picture is added to ``images``."""
    head = f"[resource {printable_line(str(resource.uri))}"
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        kind = f", {printable_line(resource.mime_type, 80)}" if resource.mime_type else ""
        return f"{head}{kind}]\n{text}"
    return f"{head}, {_read_data(resource.mime_type, getattr(resource, 'blob', ''), images)}]"


def _read_data(kind: str | None, base64: str, images: list[bytes]) -> str:
    """Return the kind and size of base64 data; a picture that models can be shown is added to
    ``images``.
    """
    try:
        data = b64decode(base64)
    except ValueError:
        data = b""
    named = ", ".join(filter(None, (kind and printable_line(kind, 80), size_words(len(data)))))
    if not find_image_kind(data):
        return f"{named}, not shown"
    images.append(data)
    return named
