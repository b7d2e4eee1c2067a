"""``/settings``: every setting, what it is, what it means, and where the value is from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from rich.cells import cell_len
from rich.segment import Segment

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
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.list_page import ListSource, PageAction


class SettingSource(ListSource):
    """A value that is not the default stands out. Nothing is changed here but by the editor."""

    def __init__(self, loaded: Loaded, path: str, models: ModelsInUse | None) -> None:
        """``path`` is where the user's file lies, or would lie; ``models`` those of the session."""
        self._models = models
        self._settings = {setting.key: setting for setting in list_settings(loaded.settings)}
        self._origins = loaded.origins
        self._path = path

    def get_main_action(self, row_id: str) -> PageAction:
        label = self.words("keys.settings_open")
        return PageAction(label, lambda: self.host.spawn(self._edit_file(), "editor"))

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
        return [*rows_of([(self.words("settings.head"), ink(self.palette.quiet))], width), []]

    def list_ids(self) -> Sequence[str]:
        return list(self._settings)

    def render_row(self, row_id: str, width: int) -> Row:
        setting, palette = self._settings[row_id], self.palette
        own = row_id in self._origins
        left = fit(visible_line(row_id), width)
        room = max(0, width - cell_len(left) - 2)
        value = fit(self._format_value(setting, setting.value), room)
        return two_sided(
            [Segment(left, ink(palette.text))],
            [Segment(f"{value} ", ink(palette.accent if own else palette.faint))],
            width,
        )

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        setting, palette, words = self._settings[row_id], self.palette, self.words
        may = [words(setting.words)]
        if choices := list_choices(setting.field):
            may.append(words("settings.choices", choices=", ".join(choices)))
        low, high = find_limits(setting.field)
        if low is not None and high is not None:
            may.append(words("settings.range", low=f"{low:,}", high=f"{high:,}"))
        value = [
            (f"= {self._format_value(setting, setting.value)}", ink(palette.accent)),
            (f"   {self._describe_origin(row_id)}", ink(palette.quiet)),
        ]
        rows = [*rows_of([("\n".join(may), ink(palette.text))], width), *rows_of(value, width)]
        if row_id in self._origins and not setting.field.is_required():
            made = setting.field.get_default(call_default_factory=True, validated_data={})
            default = words("settings.default", value=self._format_value(setting, made))
            rows += rows_of([(default, ink(palette.faint))], width)
        for counts in self._list_counted(setting):
            rows += rows_of([(counts, ink(palette.faint))], width)
        return rows

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

    def _format_value(self, setting: Setting, value: object) -> str:
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
