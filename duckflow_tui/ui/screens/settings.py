"""``/settings``: every setting, what it is, what it means, and where the value is from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from rich.cells import cell_len

from duckflow_tui.llm.connections import FILE_NAME
from duckflow_tui.llm.endpoints import ModelsInUse
from duckflow_tui.llm.known_models import ModelFacts
from duckflow_tui.safety.safe_text import SafeText, make_visible, visible_line
from duckflow_tui.settings import (
    CHOSEN,
    CHOSEN_FOR_NOW,
    Loaded,
    Origin,
    Setting,
    find_limits,
    list_choices,
    list_settings,
)
from duckflow_tui.state.usage import Role
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.list_source import ListSource, PageAction, make_row


class SettingSource(ListSource[Setting]):
    """A value that is not the default stands out. Nothing is changed here but by the editor."""

    def __init__(self, loaded: Loaded, path: str, models: ModelsInUse | None) -> None:
        """``path`` is where the user's file lies, or would lie; ``models`` those of the session."""
        self._models = models
        self._settings = {setting.key: setting for setting in list_settings(loaded.settings)}
        self._origins = loaded.origins
        self._path = path

    def get_main_action(self, item: Setting) -> PageAction:
        return self.make_action(
            "keys.settings_open", lambda: self.host.spawn(self._edit_file(), "editor")
        )

    async def _edit_file(self) -> None:
        path = Path(self._path)
        try:
            await asyncio.to_thread(_create_file, path)
        except OSError as error:
            detail = error.strerror or ""
            self.page.report(self.words("settings.open_failed", path=self._path, detail=detail))
        else:
            await self.host.editor.edit_file(path)

    def get_title(self) -> str:
        return f"{self.words('settings.title')}  {visible_line(self._path)}"

    def render_head(self, width: int) -> list[Row]:
        return [*self.wrap_text(self.words("settings.head"), width), []]

    def list_items(self) -> Mapping[str, Setting]:
        return self._settings

    def render_row(self, item: Setting, width: int) -> Row:
        palette = self.palette
        left = fit(visible_line(item.key), width)
        value = fit(self._format_value(item.value), max(0, width - cell_len(left) - 2))
        colour = palette.accent if item.key in self._origins else palette.faint
        return make_row(width, [(left, palette.text)], [(f"{value} ", colour)])

    def render_detail(self, item: Setting, width: int, room: int) -> list[Row]:
        palette, words = self.palette, self.words
        may = [words(item.words)]
        if choices := list_choices(item.field):
            may.append(words("settings.choices", choices=", ".join(choices)))
        low, high = find_limits(item.field)
        if low is not None and high is not None:
            may.append(words("settings.range", low=f"{low:,}", high=f"{high:,}"))
        value = [
            (f"= {self._format_value(item.value)}", ink(palette.accent)),
            (f"   {self._describe_origin(item.key)}", ink(palette.quiet)),
        ]
        rows = [*self.wrap_text("\n".join(may), width, palette.text), *rows_of(value, width)]
        about = list(self._list_counted(item))
        if item.key in self._origins and not item.field.is_required():
            made = item.field.get_default(call_default_factory=True, validated_data={})
            about.insert(0, words("settings.default", value=self._format_value(made)))
        return [
            *rows,
            *(row for text in about for row in self.wrap_text(text, width, palette.faint)),
        ]

    def _list_counted(self, setting: Setting) -> Sequence[str]:
        """The values for each model in use where an endpoint's window or price is not set."""
        section, _, rest = setting.key.partition(".")
        (name, _, field), models = rest.rpartition("."), self._models
        endpoint = models.endpoints.get(name) if models is not None else None
        if models is None or endpoint is None or section != "endpoints":
            return ()
        if field not in ModelFacts.model_fields:
            return ()
        refs = dict.fromkeys(map(models.roles.model_of, get_args(Role)))
        found = {
            ref.model: getattr(models.known.facts_at(endpoint, ref.model), field)
            for ref in refs
            if ref is not None and ref.endpoint == name
        }
        return [
            self.words("settings.counts", model=visible_line(model), value=f"{value:,}")
            for model, value in found.items()
            if value and value != setting.value
        ]

    def _describe_origin(self, name: str) -> SafeText:
        origin: Origin | None = self._origins.get(name)
        if origin is None:
            return self.words("settings.from.default")
        if not origin.name:
            return self.words("settings.from.flag")
        if origin == CHOSEN:
            return self.words("settings.from.chosen", file=FILE_NAME)
        if origin == CHOSEN_FOR_NOW:
            return self.words("settings.from.chosen_for_now")
        if origin.line:
            return self.words("settings.from.file", path=origin.name, line=origin.line)
        return self.words("settings.from.variable", name=origin.name)

    def _format_value(self, value: object) -> str:
        """As TOML writes it; of what may hold a secret, the names only."""
        if value is None or value == "":
            return self.words("settings.unset")
        if isinstance(value, Mapping) and value:
            names = ", ".join(cast("Mapping[str, Any]", value))
            return self.words("settings.hidden", names=names)
        return make_visible(json.dumps(value, ensure_ascii=False))


def _create_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
