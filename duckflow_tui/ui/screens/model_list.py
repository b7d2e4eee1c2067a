"""``/model``: the list of models, favourites first, to choose one for each role."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static

from duckflow_tui.llm.connections import ModelLine
from duckflow_tui.llm.endpoints import ModelRef, ModelsInUse
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import half_width
from duckflow_tui.state.usage import Role
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.ui.panes.strips import fit, row_text
from duckflow_tui.ui.screens.dialog import Prose
from duckflow_tui.ui.screens.list_page import render_keys
from duckflow_tui.ui.screens.pick_list import Choice, PickList
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import short_count

if TYPE_CHECKING:
    from duckflow_tui.ui.connecting import Connecting

BURST_S: Final = 1.0  # seconds to wait until typed keys have reached the field
_ALWAYS: Final = ("take", "leave")  # also where no model is connected yet
ROLES: Final[tuple[Role, ...]] = ("main", "creative", "fast", "evaluator")


class ModelList(PickList):
    """Returns the chosen model as ``endpoint/model``; ``role`` is the role it was chosen for."""

    HINT = "models.hint"
    BINDINGS: ClassVar[list[BindingType]] = [
        # Handled before the field, so that later keys go to the composer.
        Binding("enter", "take", show=False, priority=True),
        Binding("escape,ctrl+c", "leave", show=False, priority=True),
        Binding("tab", "next_role", show=False),
        Binding("ctrl+l", "favour", show=False),
    ]

    def __init__(
        self,
        words: Catalogue,
        title: str,
        only: str,
        owner: Connecting,
        at_hand: ModelsInUse | None = None,
    ) -> None:
        """``only``: the single endpoint whose models are listed; empty for several. ``at_hand``:
        the connected endpoints; None where no model is connected yet, and then there is only the
        main role.
        """
        super().__init__(words, title, ())
        self._main_heading = title
        self._only = only
        self._owner = owner
        self._at_hand = at_hand
        self._known = at_hand.known if at_hand is not None else KnownModels()
        self._favourites: list[str] = []
        self._query = ""
        self._stands = False
        self._listing = True
        self._faults: list[str] = []
        self.role: Role = "main"
        self.lines: dict[str, ModelLine] = {}

    def on_mount(self) -> None:
        card = self.query_one(".card", Vertical)
        kept = host_of(self).session.sources.connections
        self._favourites = [str(ref) for ref in kept.favourites]
        card.mount(Prose(id="models-said", classes="form-problem"))
        card.mount(Static("", markup=False, classes="model-keys"))
        self._stands = True
        self.call_after_refresh(self._refresh_list)  # which needs the width

    def _show_keys(self) -> None:
        """Show the keys that work now."""
        line, words = self.query_one(".model-keys", Static), self.words
        shown = (key for key in keys_of("models") if self._at_hand or key.action in _ALWAYS)
        keys = [(key.label, words(key.text)) for key in shown]
        rows = render_keys(keys, line.content_size.width, palette_of(self))
        line.update("\n".join(map(row_text, rows)))

    def on_resize(self) -> None:
        self.call_after_refresh(self._refresh_list)

    # --- the list -------------------------------------------------------------------------------

    def offer_lines(self, lines: Mapping[str, ModelLine]) -> None:
        """Add models to the list."""
        self.lines.update(lines)
        self._refresh_list()

    def show_fault(self, said: str) -> None:
        """Show that a server gave no list."""
        self._faults.append(said)
        self._show_status()

    def all_listed(self) -> None:
        """Note that no more models will be added."""
        self._listing = False
        self._show_status()

    def _refresh_list(self) -> None:
        """Build the list again; the cursor stays on its model."""
        self.offer([self._make_choice(value) for value in sorted(self.lines, key=self._place_of)])
        if not self._stands:
            return
        self._show_keys()
        options = self.query_one(OptionList)
        at = options.highlighted
        before = options.get_option_at_index(at).id if at else None
        self._fill(self.query_one(Input).value)
        ids = [options.get_option_at_index(n).id for n in range(options.option_count)]
        if before in ids:
            options.highlighted = ids.index(before)
        self._show_status()

    def _place_of(self, value: str) -> tuple[bool, bool, int]:
        """Return the sort key of a model: favourites first, then models in use, then by endpoint,
        whichever server answers first.
        """
        if self._at_hand is None:
            return value not in self._favourites, False, 0
        names, roles = list(self._at_hand.endpoints), self._at_hand.roles
        endpoint = ModelRef.parse(value).endpoint
        in_use = any(value == getattr(roles, role) for role in ROLES)
        at = names.index(endpoint) if endpoint in names else len(names)
        return value not in self._favourites, not in_use, at

    def _make_choice(self, value: str) -> Choice:
        """Return a model's row: name, context window, prices, endpoint."""
        line, ref, words = self.lines[value], ModelRef.parse(value), self.words
        parts: list[str] = []
        endpoint = self._at_hand.endpoints.get(ref.endpoint) if self._at_hand else None
        origin = endpoint.origin if endpoint else ""
        known = self._known.with_chosen(origin, line)
        facts = known.facts_at(endpoint, line.id) if endpoint else known.facts_of(origin, line.id)
        if facts.context:
            parts.append(short_count(facts.context))
        prices = facts.prices
        if prices.prompt is not None and prices.reply is not None:
            parts.append(f"${prices.prompt:g} / ${prices.reply:g}")
        if not self._only:
            parts.append(ref.endpoint)
        if self._at_hand is not None and self._at_hand.roles.model_of(self.role) == ref:
            parts.insert(0, words("models.now"))
        mark = "★ " if value in self._favourites else ""
        return Choice(value, f"{mark}{line.id}", " · ".join(parts))

    def _row(self, choice: Choice, width: int) -> Content:
        """Render a choice on one line; the name keeps at least half of the room."""
        room = self.query_one(OptionList).scrollable_content_region.width - 2
        if room > 0:
            abouts = max(cell_len(visible_line(one.about)) for one in self._choices.values())
            width = min(width, max(room - 3 - abouts, room // 2))
            label = fit(visible_line(choice.label), width)
            about = fit(visible_line(choice.about), room - 3 - width)
            choice = Choice(choice.value, label, about, choice.key)
        return super()._row(choice, width)

    def _show_status(self) -> None:
        """Show servers' faults, and whether lists are still awaited."""
        if not self._stands:
            return
        told = list(self._faults)
        if self._listing:
            told.append(self.words("models.listing"))
        elif not self.lines:
            told.append(self.words("models.write_name"))
        line = self.query_one("#models-said", Prose)
        line.update("\n".join(told))
        line.display = bool(told)

    # --- keys ---------------------------------------------------------------------------------

    @property
    def _chosen(self) -> str:
        """The model at the cursor; else the typed name at the only endpoint; else empty."""
        options = self.query_one(OptionList)
        at = options.highlighted
        if at is not None:
            return options.get_option_at_index(at).id or ""
        typed = half_width(self.query_one(Input).value.strip())
        return f"{self._only}/{typed}" if typed and self._only else ""

    def on_input_changed(self, event: Input.Changed) -> None:
        self._narrow_list()

    def _narrow_list(self) -> None:
        """Filter the list by the field, if its text has changed."""
        query = self.query_one(Input).value
        if query != self._query:
            self._query = query
            self._fill(query)

    def action_move(self, step: int) -> None:
        """Move the cursor, after filtering by the present text."""
        self._narrow_list()  # the field may have changed without a message yet
        super().action_move(step)

    async def action_take(self) -> None:
        """Close the page with the chosen model, after keys typed before Enter have reached the
        field.
        """
        field, typed = self.query_one(Input), asyncio.Event()
        if field.call_later(typed.set):  # behind the keys that were typed before
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(typed.wait(), BURST_S)
        self._narrow_list()
        if chosen := self._chosen:
            self._owner.chosen = True
            self.dismiss(chosen)

    def action_next_role(self) -> None:
        """Choose for the next role."""
        if self._at_hand is None:
            return
        self.role = ROLES[(ROLES.index(self.role) + 1) % len(ROLES)]
        main = self.role == "main"
        self.heading = self._main_heading if main else self.words(f"models.role.{self.role}")
        self._refresh_list()

    def action_favour(self) -> None:
        """Make the chosen model a favourite, or no longer one."""
        self._narrow_list()
        value = self._chosen
        if not value or self._at_hand is None:
            return
        favourite = value not in self._favourites
        if favourite:
            self._favourites.append(value)
        else:
            self._favourites.remove(value)
        self._owner.set_favourite(value, favourite)
        self._refresh_list()
