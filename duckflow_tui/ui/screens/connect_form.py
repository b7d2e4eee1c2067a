"""An address and a key: asked of the server as they are written, and corrected in place."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from pydantic import ValidationError
from textual.app import ComposeResult
from textual.widgets import Input, Static

from duckflow_tui.llm.connections import KeyPlace, ModelLine
from duckflow_tui.llm.discovery import address_of, reach
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.ui.bindings import Surface
from duckflow_tui.ui.connecting import REFUSED, UNLISTED, fault_words, host_of_url
from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.screens.confirm import Confirm
from duckflow_tui.ui.screens.form import Form
from duckflow_tui.ui.screens.requirement_form import OneOf
from duckflow_tui.words.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class WrittenConnection:
    """What was written, and answered for by its server."""

    base_url: str
    models: Sequence[ModelLine]
    place: KeyPlace = "none"
    variable: str = ""
    secret: str = field(default="", repr=False)


class ConnectForm(Form[WrittenConnection | None]):
    """Gives back what was written once the server answers to it."""

    AUTO_FOCUS: ClassVar[str | None] = ""  # a key typed at once is never written in the clear
    SURFACE: ClassVar[Surface] = "connect_form"
    LABELS: ClassVar[str] = "connect.form"

    def __init__(
        self,
        words: Catalogue,
        address: str,
        problem: str,
        place: Literal["keyring", "file"],
        path: str,
    ) -> None:
        """``place`` is where a key would be kept by itself, ``path`` the file for one."""
        first = "#connect-key" if address else "#connect-address"
        super().__init__(words, words("connect.form.title"), first)
        self._address = address
        self._first_problem = problem
        self._places: Final[tuple[KeyPlace, ...]] = (
            ("keyring", "file", "variable") if place == "keyring" else ("file", "variable")
        )
        self._path = path
        self._asking = False
        self._unlisted: tuple[str, str] | None = None  # what is taken if it is sent once more

    def fields(self) -> ComposeResult:
        words = self.words
        # Above the fields, since a small screen has no room below them.
        yield Static(self._first_problem, markup=False, id="connect-said")
        yield self.label("address")
        placeholder = words("connect.form.address_hint")
        yield Input(
            self._address,
            compact=True,
            placeholder=placeholder,
            id="connect-address",
            classes="card-field",
        )
        yield self.label("key")
        yield Input("", compact=True, password=True, id="connect-key", classes="card-field")
        yield self.label("place")
        names = [words(f"connect.form.{place}") for place in self._places]
        yield OneOf(names, 0, id="connect-place")
        yield Static("", markup=False, id="connect-means")

    def on_mount(self) -> None:
        self.on_one_of_changed()
        self.query_one("#connect-said").display = bool(self._first_problem)

    def on_one_of_changed(self) -> None:
        """Say where the key will be; what was written for another place is taken away."""
        place, key = self._place, self.query_one("#connect-key", Input)
        hidden = place != "variable"
        if key.password != hidden:
            key.value = ""
            key.password = hidden
        means = self.query_one("#connect-means", Static)
        means.update(self.words(f"connect.form.means.{place}", path=visible_line(self._path)))

    @property
    def _place(self) -> KeyPlace:
        return self._places[self.query_one("#connect-place", OneOf).at]

    def apply(self) -> None:
        if not self._asking:
            self.run_worker(self._ask(), exit_on_error=False)

    async def _ask(self) -> None:
        self._asking = True
        try:
            await self._asked()
        finally:
            self._asking = False

    async def _asked(self) -> None:
        words, place = self.words, self._place
        written = self.query_one("#connect-key", Input).value.strip()
        variable = written if place == "variable" else ""
        secret = os.environ.get(variable, "").strip() if variable else written
        host_of(self).session.sources.choice.withhold([secret])
        typed = self.query_one("#connect-address", Input).value
        address = address_of(typed, secret)
        if not address:
            self.refuse("no_address")
            return
        try:
            endpoint = Endpoint(name="new", base_url=address, api_key_env=variable)
        except ValidationError as error:
            kind = error.errors(include_url=False, include_input=False)[0]["type"]
            self._say(words("connect.form.not_so", reason=words(f"settings.why.{kind}")))
            return
        if variable and not secret:
            self.refuse("no_variable", variable=visible_line(variable))
            return
        if not await self._may_ask(endpoint):
            return
        self._say(words("connect.asking", host=host_of_url(address)))
        models: Sequence[ModelLine] = ()
        try:
            found = await reach(address, secret, variable)
            address, models = found.base_url, found.models
        except LlmError as error:
            said = fault_words(error, words, variable)
            if error.code in REFUSED and not variable:  # of dots nothing can be corrected
                self.query_one("#connect-key", Input).value = ""
            if error.code not in UNLISTED or self._unlisted != (address, secret):
                unlisted = error.code in UNLISTED
                self._unlisted = (address, secret) if unlisted else None
                self._say(f"{said} {words('connect.form.unlisted')}" if unlisted else said)
                return
        kept: KeyPlace = place if written else "none"
        self.dismiss(WrittenConnection(address, models, kept, variable, "" if variable else secret))

    async def _may_ask(self, endpoint: Endpoint) -> bool:
        """Plain http to a private address is confirmed once (R11)."""
        app = host_of(self)
        if not app.session.sources.needs_confirmation(endpoint):
            return True
        question = Confirm(self.words, app.clock, "origin", origin=endpoint.origin)
        if await app.push_screen_wait(question) != "yes":
            return False
        app.session.sources.confirm_origin(endpoint.origin)
        return True

    def refuse(self, problem: str, **params: str) -> None:
        self._say(self.words(f"{self.LABELS}.{problem}", **params))

    def _say(self, said: str) -> None:
        line = self.query_one("#connect-said", Static)
        line.update(said)
        line.display = True
