"""The README's tables of keys and settings, made from the registry and the models.

``python tests/support/readme_tables.py`` writes them into the README.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pydantic.fields import FieldInfo

from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.settings import Settings, choices_of, limits_of, listed
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.ui.bindings import KEYS
from duckflow_tui.words.catalogue import Catalogue

README: Final = Path(__file__).resolve().parents[2] / "README.md"


def keys_table() -> str:
    """Every key of the registry, in its order, with the words that F1 shows."""
    say = Catalogue("en")
    rows = ["| where | key | does |", "| --- | --- | --- |"]
    for key in KEYS:
        label = key.label.replace("\\", "\\\\").replace("|", "\\|")
        rows.append(f"| {say(f'keys.surface.{key.surface}')} | {label} | {say(key.text)} |")
    return "\n".join(rows)


def settings_table() -> str:
    """Every key that a settings file may hold, with its default, its range and its meaning."""
    say = Catalogue("en")
    example = Settings(endpoints={"NAME": Endpoint(name="NAME", base_url="https://localhost")})
    example.mcp.servers["NAME"] = McpServerConfig(name="NAME", command="server")
    rows = ["| key | default | means |", "| --- | --- | --- |"]
    for setting in listed(example):
        means = _meaning(say(setting.words), setting.field)
        rows.append(f"| `{setting.key}` | {_default(setting.field)} | {means} |")
    return "\n".join(rows)


def with_tables(text: str) -> str:
    """The README's text with both tables as they should be; raises ValueError without a mark."""
    for name, table in (("keys", keys_table()), ("settings", settings_table())):
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"the README has no {begin.strip()} … {end.strip()}")
        text = f"{head}{begin}{table}\n{end}{tail}"
    return text


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else f"`{json.dumps(value)}`"


def _meaning(sentence: str, field: FieldInfo) -> str:
    choices = choices_of(field)
    if choices:
        return f"{sentence} {', '.join(f'`{choice}`' for choice in choices)}."
    low, high = limits_of(field)
    if low is not None and high is not None:
        return f"{sentence} {low:,} to {high:,}."
    return sentence


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
