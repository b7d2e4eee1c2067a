"""The lists at the end of the manual's pages of keys and settings, from the registry and models.

``python tests/support/manual_tables.py`` writes them into the pages of both languages.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from pydantic.fields import FieldInfo

from duckflow_tui.commands import COMMANDS
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.manual import page_path, read_page
from duckflow_tui.settings import Settings, find_limits, list_choices, list_settings
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.ui.bindings import KEYS, Surface, keys_of
from duckflow_tui.words.catalogue import Catalogue

#: The list begins with the first heading of this level; pages have no other.
HEADING: Final = "\n### "
LISTS: Final = ("keys", "settings")
_HEADS: Final = {
    "en": ("| key | does |", "| command | does |"),
    "ja": ("| キー | 動作 |", "| コマンド | 動作 |"),
}
_FROM_TO: Final = {"en": "{low:,} to {high:,}.", "ja": "{low:,} から {high:,}。"}
_CHOICES: Final = {"en": (", ", "."), "ja": ("、", "。")}
_REQUIRED: Final = {"en": "required", "ja": "必須"}


def keys_list(language: str) -> str:
    """Every key of the registry, a table for each place, then every command, with the words that
    F1 and the palette show.
    """
    say = Catalogue(language)
    key_head, command_head = _HEADS[language]
    surfaces: tuple[Surface, ...] = tuple(dict.fromkeys(key.surface for key in KEYS))
    parts = [
        _table(
            say(f"keys.surface.{surface}"),
            key_head,
            [(_in_table(key.label), say(key.text)) for key in keys_of(surface)],
        )
        for surface in surfaces
    ]
    commands = [
        (", ".join(f"`/{name}`" for name in (command.name, *command.also)), say(command.text))
        for command in COMMANDS
    ]
    parts.append(_table(say("pick.palette"), command_head, commands))
    return "\n\n".join(parts) + "\n"


def settings_list(language: str) -> str:
    """Every key that a settings file may hold, by table, with default, meaning and range."""
    say = Catalogue(language)
    example = Settings(endpoints={"NAME": Endpoint(name="NAME", base_url="https://localhost")})
    example.mcp.servers["NAME"] = McpServerConfig(name="NAME", command="server")
    parts: list[str] = []
    for table, settings in groupby(
        list_settings(example), lambda setting: setting.key.rpartition(".")[0]
    ):
        rows = [f"### `[{table}]`", ""]
        for setting in settings:
            name = setting.key.rpartition(".")[2]
            means = _meaning(say(setting.words), setting.field, say.language)
            rows.append(f"- {_assignment(name, setting.field, say.language)}: {means}")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def with_list(topic: str, language: str) -> str:
    """The page with its list as it should be; raises ValueError where it has no heading of it."""
    text = read_page(topic, language)
    at = text.find(HEADING)
    if at < 0:
        raise ValueError(f"{page_path(topic, language)} has no line that begins with ###")
    made = keys_list(language) if topic == "keys" else settings_list(language)
    return f"{text[: at + 1]}{made}"


def _table(heading: str, head: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {first} | {_in_table(second)} |" for first, second in rows]
    return "\n".join([f"### {heading}", "", head, "| --- | --- |", *lines])


def _in_table(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def _assignment(name: str, field: FieldInfo, language: str) -> str:
    if field.is_required():
        return f"`{name}` ({_REQUIRED[language]})"
    value = field.get_default(call_default_factory=True, validated_data={})
    return f"`{name}`" if value is None else f"`{name} = {json.dumps(value)}`"


def _meaning(sentence: str, field: FieldInfo, language: str) -> str:
    choices = list_choices(field)
    gap = " " if language == "en" else ""
    if choices:
        comma, stop = _CHOICES[language]
        return f"{sentence}{gap}{comma.join(f'`{choice}`' for choice in choices)}{stop}"
    low, high = find_limits(field)
    if low is not None and high is not None:
        return f"{sentence}{gap}{_FROM_TO[language].format(low=low, high=high)}"
    return sentence


if __name__ == "__main__":
    for language in LANGUAGES:
        for topic in LISTS:
            page_path(topic, language).write_text(with_list(topic, language), encoding="utf-8")
