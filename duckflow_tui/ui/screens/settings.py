"""``/settings``: every setting with its meaning and origin, and a way to change it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast, get_args

from pydantic import ValidationError
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
    Settings,
    check_value,
    describe_fault,
    find_limits,
    find_section,
    list_choices,
    list_settings,
    sift_denials,
)
from duckflow_tui.state.base import LocalizedText
from duckflow_tui.state.usage import Role
from duckflow_tui.ui.panes.strips import Row, fit, ink, rows_of
from duckflow_tui.ui.screens.list_source import ListSource, PageAction, make_row
from duckflow_tui.ui.screens.pick_list import Choice, PickList
from duckflow_tui.ui.session_host import AT_ONCE, AppOptions

#: Sections that have pages of their own.
_ELSEWHERE: Final = ("mcp", "roles")
#: Values that allow more without asking; a further Enter confirms them.
_WIDENS: Final = (("approval.mode", "trusted"), ("sandbox.level", "none"))
#: Lists that decide what may be read or run; a further Enter confirms each change.
_GUARDED: Final = ("approval.deny", "sandbox.read", "sandbox.env")


class SettingSource(ListSource[Setting]):
    """Every setting by section; changed values stand out. Enter changes one: a boolean toggles, one
    of a few words is chosen from a list; a number, a text or a list is edited on the row.
    """

    def __init__(self, options: AppOptions, models: ModelsInUse | None, wanted: str = "") -> None:
        """``models``: the models of the session. The cursor begins at the first setting whose key
        contains ``wanted``.
        """
        self._options = options
        self._models = models
        self._wanted = wanted
        self._read_settings()

    def _read_settings(self) -> None:
        """Load the present settings and origins."""
        read = self._options.settings
        self._loaded = read() if read is not None else Loaded(Settings())
        self._settings = {s.key: s for s in list_settings(self._loaded.settings)}
        self._origins = self._loaded.origins

    def on_open(self) -> None:
        """Put the cursor on the first setting whose key contains the wanted text."""
        wanted = self._wanted.lower()
        found = (key for key in self._settings if wanted and wanted in key)
        self.page.put_cursor(next(found, ""))

    # --- changing -----------------------------------------------------------------------------

    def get_main_action(self, item: Setting) -> PageAction:
        """Return the action that changes the setting, or where that is impossible opens
        the file.
        """
        if self._can_change(item):
            return self.make_action("keys.settings_change", lambda: self._change(item))
        return self._make_opening()

    def list_actions(self, item: Setting | None) -> Sequence[PageAction]:
        """Return the action that opens the settings file."""
        return (self._make_opening(),) if item is not None and self._can_change(item) else ()

    def _make_opening(self) -> PageAction:
        """Return the action that opens the settings file in the user's editor."""
        return self.make_action(
            "keys.settings_open", lambda: self.host.spawn(self._edit_file(), "editor")
        )

    def _can_change(self, item: Setting) -> bool:
        """Whether the page can write the setting's value: it is no table, and an endpoint's is in
        the settings file.
        """
        section, *names = item.key.split(".")
        if self._options.keep is None or section in _ELSEWHERE or isinstance(item.value, Mapping):
            return False
        if section != "endpoints":
            return True
        origin = self._origins.get(f"endpoints.{names[0]}.base_url")
        return len(names) == 2 and origin is not None and bool(origin.line)

    def _change(self, item: Setting) -> None:
        """Toggle a boolean, offer the words of a choice, or open a field on the row. A list is
        written there as in TOML, and an empty field unsets what may be unset.
        """
        if isinstance(item.value, bool):
            self._take_value(item, not item.value)
        elif choices := list_choices(item.field):
            rows = [Choice(choice, choice) for choice in choices]
            chosen = str(item.value)

            def take_choice(value: str | None) -> None:
                """Save the chosen value, if it is another one."""
                if value is not None and value != chosen:
                    self._take_value(item, value)

            self.host.push_screen(PickList(self.words, item.key, rows, now=chosen), take_choice)
        else:
            now = "" if item.value is None else item.value
            text = now if isinstance(now, str) else json.dumps(now, ensure_ascii=False)
            self.page.edit_row(text, lambda text: self._take_value(item, _read_typed(item, text)))

    def _take_value(self, item: Setting, value: object) -> str:
        """Save the value if it is valid, after a question if it widens what runs unasked; return
        the problem, or an empty text.
        """
        settings = self._loaded.settings
        try:
            value = check_value(settings, item.key, value)
        except ValidationError as error:
            code, params = describe_fault(error, type(find_section(settings, item.key)[0]))
            return self.words(f"settings.why.{code}", **params)
        if item.key == "approval.deny":
            faults: list[LocalizedText] = []
            sift_denials(list(cast("tuple[object, ...]", value)), faults.append)
            if faults:
                return self.words(f"settings.why.{faults[0].key}", **faults[0].params)

        def save() -> None:
            """Start to save the value."""
            self.host.spawn(self._save_value(item.key, value), "keep")

        if (item.key, value) in _WIDENS:
            self.page.ask_first(self.words("settings.widens", value=str(value)), save)
        elif item.key in _GUARDED:
            said = self._format_value(value)
            self.page.ask_first(self.words("settings.becomes", key=item.key, value=said), save)
        else:
            save()
        return ""

    async def _save_value(self, key: str, value: object) -> None:
        """Write the value to the settings file, apply it where possible, and report from when on it
        applies.
        """
        keep = self._options.keep
        assert keep is not None
        said = await asyncio.to_thread(keep, key, value, self.words)
        now = self.host.apply_setting(key, value)
        self._read_settings()
        when = self.words("settings.saved_now" if now else "settings.saved_later")
        self.page.words = self.host.words
        self.page.report(said or when, wrong=bool(said))

    async def _edit_file(self) -> None:
        """Create the settings file where it is missing, and open it in the user's editor."""
        path = Path(self._options.settings_path)
        try:
            await asyncio.to_thread(_create_file, path)
        except OSError as error:
            detail = error.strerror or ""
            self.page.report(
                self.words("settings.open_failed", path=self._options.settings_path, detail=detail)
            )
        else:
            await self.host.editor.edit_file(path)

    def get_title(self) -> str:
        return f"{self.words('settings.title')}  {visible_line(self._options.settings_path)}"

    def render_head(self, width: int) -> list[Row]:
        return [*self.wrap_text(self.words("settings.head"), width), []]

    def list_items(self) -> Mapping[str, Setting]:
        return self._settings

    def render_row(self, item: Setting, width: int) -> Row:
        """Render section, name and value of a setting; the section is highlighted where it
        begins.
        """
        palette = self.palette
        section, _, name = item.key.rpartition(".")
        begins = next(k for k in self._settings if k.rpartition(".")[0] == section) == item.key
        value = fit(self._format_value(item.value), max(0, width - cell_len(item.key) - 2))
        changed = palette.accent if item.key in self._origins else palette.faint
        left = [
            (f"{visible_line(section)}.", palette.ai if begins else palette.faint),
            (visible_line(name), palette.text),
        ]
        return make_row(width, left, [(f"{value} ", changed)])

    def get_search_text(self, item: Setting) -> str:
        """Return key, meaning and value of the setting."""
        return f"{item.key} {self.words(item.words)} {item.value}"

    def render_detail(self, item: Setting, width: int, room: int) -> list[Row]:
        """Render meaning, allowed values, value with origin, default, and from when on changes
        apply.
        """
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
        if self._can_change(item) and item.key not in AT_ONCE:
            about.append(words("settings.later"))
        return [
            *rows,
            *(row for text in about for row in self.wrap_text(text, width, palette.faint)),
        ]

    def _list_counted(self, setting: Setting) -> Sequence[str]:
        """Return, for an endpoint's window or price that is not set, the value used for each model
        of a role.
        """
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
        """Return the origin of a setting's value in words."""
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
        """Format a value as in TOML; of a table, which may hold secrets, only the names."""
        if value is None or value == "":
            return self.words("settings.unset")
        if isinstance(value, Mapping) and value:
            names = ", ".join(cast("Mapping[str, Any]", value))
            return self.words("settings.hidden", names=names)
        return make_visible(json.dumps(value, ensure_ascii=False))


def _read_typed(item: Setting, text: str) -> object:
    """Return the value that a typed text stands for; a text that is no list where one is needed is
    returned unchanged.
    """
    if not text and type(None) in get_args(item.field.annotation):
        return None
    if isinstance(item.value, tuple):
        with suppress(ValueError):
            return json.loads(text)
    return text


def _create_file(path: Path) -> None:
    """Create an empty file with mode 0600, and its folder, where missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
