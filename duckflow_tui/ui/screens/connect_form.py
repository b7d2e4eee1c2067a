"""A form for a server's address and key. The server is asked for its models before the form closes;
a mistake is corrected in place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from textual.app import ComposeResult
from textual.widgets import Input

from duckflow_tui.llm.connections import KeyPlace, ModelLine
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.connecting import REFUSED, NotTaken
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.screens.dialog import Prose
from duckflow_tui.ui.screens.form import Form
from duckflow_tui.ui.screens.requirement_form import OneOf
from duckflow_tui.words.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class WrittenConnection:
    """A connection entered by the user and confirmed by its server. ``place`` says where to store
    ``secret``; ``variable`` is the environment variable that holds it instead.
    """

    base_url: str
    models: Sequence[ModelLine]
    place: KeyPlace = "none"
    variable: str = ""
    secret: str = field(default="", repr=False)


class ConnectForm(Form[WrittenConnection | None]):
    """The form; returns the connection once its server has answered, or None."""

    AUTO_FOCUS: ClassVar[str | None] = ""  # a key typed at once is never written in the clear
    APPLY: ClassVar[tuple[str, str]] = ("Enter", "keys.connect_apply")
    LABELS: ClassVar[str] = "connect.form"

    def __init__(
        self,
        words: Catalogue,
        address: str,
        problem: str,
        place: Literal["keyring", "file"],
        path: str,
    ) -> None:
        """``place``: where keys are stored by default; ``path``: the file for keys; ``problem``:
        shown at first.
        """
        first = "#connect-key" if address else "#connect-address"
        super().__init__(words, words("connect.form.title"), first)
        self._address = address
        self._first_problem = problem
        self._places: Final[tuple[KeyPlace, ...]] = (
            ("keyring", "file", "variable") if place == "keyring" else ("file", "variable")
        )
        self._path = path
        self._asking = False

    def compose_fields(self) -> ComposeResult:
        words = self.words
        # Above the fields, since a small screen has no room below them.
        yield Prose(self._first_problem, id="connect-said")
        yield self.make_label("address")
        placeholder = words("connect.form.address_hint")
        yield Input(
            self._address,
            compact=True,
            placeholder=placeholder,
            id="connect-address",
            classes="card-field",
        )
        yield self.make_label("key")
        yield Input("", compact=True, password=True, id="connect-key", classes="card-field")
        yield self.make_label("place")
        names = [words(f"connect.form.{place}") for place in self._places]
        yield OneOf(names, 0, id="connect-place")
        yield Prose(id="connect-means")

    def on_mount(self) -> None:
        self.on_one_of_changed()
        self.query_one("#connect-said").display = bool(self._first_problem)

    def on_one_of_changed(self) -> None:
        """Show where the key will be stored. A key typed for a hidden field is cleared when the
        field becomes visible, and the other way round.
        """
        place, key = self._place, self.query_one("#connect-key", Input)
        hidden = place != "variable"
        if key.password != hidden:
            key.value = ""
            key.password = hidden
        means = self.query_one("#connect-means", Prose)
        means.update(self.words(f"connect.form.means.{place}", path=visible_line(self._path)))

    @property
    def _place(self) -> KeyPlace:
        """The chosen place for the key."""
        return self._places[self.query_one("#connect-place", OneOf).at]

    def apply(self) -> None:
        """Ask the server about the entered connection, unless it is being asked."""
        if not self._asking:
            self.run_worker(self._submit_once, exit_on_error=False)

    async def _submit_once(self) -> None:
        """Ask the server; ``apply`` starts this only where it is not being asked already."""
        self._asking = True
        try:
            await self._ask_server()
        finally:
            self._asking = False

    async def _ask_server(self) -> None:
        """Ask the typed address for its models; close the form, or show the problem. The typed key
        is redacted in logs from now on.
        """
        place = self._place
        written = self.query_one("#connect-key", Input).value.strip()
        variable = written if place == "variable" else ""
        secret = os.environ.get(variable, "").strip() if variable else written
        host_of(self).session.sources.choice.withhold_secrets([secret])
        typed = self.query_one("#connect-address", Input).value
        try:
            address, models = await host_of(self).connecting.ask_address(
                typed, self._show_problem, secret, variable
            )
        except NotTaken as error:
            if error.code in REFUSED and not variable:  # a hidden key cannot be corrected
                self.query_one("#connect-key", Input).value = ""
            if error.said:
                self._show_problem(error.said)
            return
        kept: KeyPlace = place if written else "none"
        self.dismiss(WrittenConnection(address, models, kept, variable, "" if variable else secret))

    def _show_problem(self, said: str) -> None:
        """Show a problem above the fields."""
        line = self.query_one("#connect-said", Prose)
        line.update(said)
        line.display = True
