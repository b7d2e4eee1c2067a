"""The README's tables of keys and settings, made from the registry and the models.

``python tests/support/readme_tables.py`` writes them into the README.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Final

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.settings import McpSettings, Settings, choices_of
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.ui.bindings import KEYS
from duckflow_tui.words.catalogue import Catalogue

README: Final = Path(__file__).resolve().parents[2] / "README.md"

_ROWS: Final = re.compile(r" \([A-Z]\d[^)]*\)")  # ids of requirements are for the source only


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
    rows = ["| key | default | means |", "| --- | --- | --- |"]
    rows += _rows("endpoints.NAME", Endpoint, skip=("name",))
    rows += _rows("roles", Roles)
    for section, field in Settings.model_fields.items():
        model = field.annotation
        if model is McpSettings:
            rows += _rows("mcp.servers.NAME", McpServerConfig, skip=("name",))
        elif inspect.isclass(model) and issubclass(model, BaseModel) and model is not Roles:
            rows += _rows(section, model)
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


def _rows(section: str, model: type[BaseModel], skip: tuple[str, ...] = ()) -> list[str]:
    words = _sentences(model)
    rows: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            rows += _rows(f"{section}.{name}", inner)
        elif name not in skip:
            rows.append(
                f"| `{section}.{name}` | {_default(field)} | {_meaning(words[name], field)} |"
            )
    return rows


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is None else f"`{json.dumps(value)}`"


def _meaning(sentence: str, field: FieldInfo) -> str:
    choices = choices_of(field)
    if choices:
        return f"{sentence} {', '.join(f'`{choice}`' for choice in choices)}."
    low = next((mark.ge for mark in field.metadata if isinstance(mark, Ge)), None)
    high = next((mark.le for mark in field.metadata if isinstance(mark, Le)), None)
    if low is not None and high is not None:
        return f"{sentence} {low:,} to {high:,}."
    return sentence


def _sentences(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings under the fields of a model; every field has to have one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = _ROWS.sub("", " ".join(words.split())).replace("``", "`")
            case _:
                pass
    missing = [name for name in model.model_fields if name not in found and name != "name"]
    if missing:
        raise ValueError(f"no sentence under {model.__name__}: {', '.join(missing)}")
    return found


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
