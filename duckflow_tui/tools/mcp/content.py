"""What a server answered to a call, as the text that the model gets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from duckflow_tui.state.base import JsonObject
from duckflow_tui.tools.mcp.words import harmless, said

if TYPE_CHECKING:
    from mcp import types


def result_text(result: types.CallToolResult) -> str:
    """Structured content as JSON, then every text that does not merely repeat it; pictures and
    sounds are named, not shown.
    """
    parts: list[str] = []
    structured: Any = result.structured_content
    if structured is not None:
        parts.append(json.dumps(structured, ensure_ascii=False))
    blocks = [block for block in result.content if not _repeats(block, structured)]
    if structured is not None and _are_its_items(result.content, structured):
        blocks = []
    parts.extend(_block_text(block) for block in blocks)
    return harmless("\n".join(parts)) or "(the server answered with nothing)"


def _repeats(block: types.ContentBlock, structured: Any) -> bool:
    """Whether a text says what the structured content says; servers send both for old clients."""
    if structured is None or block.type != "text":
        return False
    inner = _unwrapped(structured)
    if block.text == inner:
        return True
    try:
        value: Any = json.loads(block.text)
    except (ValueError, RecursionError):
        return False
    return bool(value in (structured, inner))


def _are_its_items(blocks: Sequence[types.ContentBlock], structured: Any) -> bool:
    """Whether the texts are the items of a list, one block each."""
    items = _unwrapped(structured)
    if not isinstance(items, list):
        return False
    each = cast("list[Any]", items)
    return len(blocks) == len(each) and all(map(_repeats, blocks, each))


def _unwrapped(structured: Any) -> Any:
    """What is no object travels as the only member of one, ``result``."""
    if isinstance(structured, dict):
        table = cast("JsonObject", structured)
        if list(table) == ["result"]:
            return table["result"]
        return table
    return structured


def _block_text(block: types.ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{said(block.mime_type, 80)}, {_size(block.data)}, not shown]"
        case "resource_link":
            return f"[resource {said(block.name, 80)}: {said(str(block.uri))}]"
        case "resource":
            resource = block.resource
            head = f"[resource {said(str(resource.uri))}"
            kind = f", {said(resource.mime_type, 80)}" if resource.mime_type else ""
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return f"{head}{kind}]\n{text}"
            return f"{head}{kind}, {_size(getattr(resource, 'blob', ''))}, not shown]"


def _size(base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"{size // 1024:,} KB" if size >= 1024 else f"{size} bytes"
