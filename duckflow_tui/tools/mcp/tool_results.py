"""Results of servers' tools as text for a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from duckflow_tui.state.base import JsonObject
from duckflow_tui.tools.diffs import size_words
from duckflow_tui.tools.mcp.config import make_harmless, printable_line

if TYPE_CHECKING:
    from mcp import types


def result_text(result: types.CallToolResult) -> str:
    """Structured content as JSON, then texts that do not repeat it; pictures by name."""
    parts: list[str] = []
    structured: Any = result.structured_content
    if structured is not None:
        parts.append(json.dumps(structured, ensure_ascii=False))
    blocks = [block for block in result.content if not _repeats_structured(block, structured)]
    if structured is not None and _are_its_items(result.content, structured):
        blocks = []
    parts.extend(_block_text(block) for block in blocks)
    return make_harmless("\n".join(parts)) or "(the server answered with nothing)"


def resource_text(result: types.ReadResourceResult) -> str:
    """The texts of a resource, each behind its address; what is no text by its kind and size."""
    parts = [_resource_block_text(contents) for contents in result.contents]
    return make_harmless("\n".join(parts)) or "(the server answered with nothing)"


def prompt_text(result: types.GetPromptResult) -> str:
    """The messages of a prompt as one text; those that the assistant would have said are marked."""
    parts: list[str] = []
    for message in result.messages:
        text = _block_text(message.content)
        parts.append(text if message.role == "user" else f"Assistant: {text}")
    return make_harmless("\n\n".join(parts))


def _repeats_structured(block: types.ContentBlock, structured: Any) -> bool:
    """Whether a text says what the structured content says; servers send both for old clients."""
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
    """Whether the texts are the items of a list, one block each."""
    items = _unwrap_result(structured)
    if not isinstance(items, list):
        return False
    each = cast("list[Any]", items)
    return len(blocks) == len(each) and all(map(_repeats_structured, blocks, each))


def _unwrap_result(structured: Any) -> Any:
    """Unwrap ``result``, the only member of an object that carries a value of another type."""
    if isinstance(structured, dict):
        table = cast("JsonObject", structured)
        return table["result"] if list(table) == ["result"] else table
    return structured


def _block_text(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return (
                f"[{printable_line(block.mime_type, 80)}, {_describe_size(block.data)}, not shown]"
            )
        case "resource_link":
            return f"[resource {printable_line(block.name, 80)}: {printable_line(str(block.uri))}]"
        case "resource":
            return _resource_block_text(block.resource)


def _resource_block_text(
    resource: types.TextResourceContents | types.BlobResourceContents,
) -> str:
    head = f"[resource {printable_line(str(resource.uri))}"
    kind = f", {printable_line(resource.mime_type, 80)}" if resource.mime_type else ""
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return f"{head}{kind}]\n{text}"
    return f"{head}{kind}, {_describe_size(getattr(resource, 'blob', ''))}, not shown]"


def _describe_size(base64: str) -> str:
    return size_words(len(base64) * 3 // 4 - base64[-2:].count("="))
