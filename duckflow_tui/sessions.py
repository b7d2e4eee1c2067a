"""The screen's way to its sessions: it opens, resumes and leaves them, and keeps choices."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from duckflow_tui.choice import SessionChoice, Unusable
from duckflow_tui.llm.connections import Connections, KeyStore, ModelLine
from duckflow_tui.llm.endpoints import Endpoint, ModelRef, ModelsInUse, find_need, setting_of
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.places import ConfirmedOrigins
from duckflow_tui.settings import (
    CHOSEN,
    CHOSEN_FOR_NOW,
    Loaded,
    Origin,
    find_section,
    load_settings,
)
from duckflow_tui.shutdown import Ending
from duckflow_tui.state.base import Spawn
from duckflow_tui.state.usage import Role

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.session.catalog import Catalog


@asynccontextmanager
async def open_session(
    choice: SessionChoice, spawn: Spawn, ending: Ending | None = None
) -> AsyncGenerator[Engine]:
    """Build one session's engine and take it down again; the loops are started by the caller.
    Raises as ``compose.open_engine`` does.
    """
    compose = await asyncio.to_thread(_import_rooms, choice)
    async with compose.open_engine(choice, spawn, ending) as engine:
        yield engine


def _import_rooms(choice: SessionChoice) -> ModuleType:
    """Import the modules of a session when there is one: in a thread, as it takes a while."""
    if choice.demo:
        import_module("duckflow_tui.scripted.stage")
    if choice.demo or choice.settings.mcp.servers:
        import_module("duckflow_tui.tools.mcp.servers")
    return import_module("duckflow_tui.compose")


class Sessions:
    """Where the screen gets its session from, once it stands."""

    def __init__(self, choice: SessionChoice) -> None:
        self.choice = choice
        self.ending = Ending()
        self._stack = AsyncExitStack()
        self._catalog: Catalog | None = None
        self.put_aside: list[Path] = []  # damaged files of what was chosen, by their new names
        self._chosen: dict[str, Origin] = {}  # on the screen in this process, by setting
        self.missing = ""  # why a model that the flags named in part could not be taken

    async def open(self, spawn: Spawn) -> Engine | None:
        """The session that was chosen; None while no model is configured. What the flags name of
        one is completed here where it is clear, else ``missing`` says what is missing. A session
        that is resumed goes on with the model that it had.
        """
        choice = self.choice
        if choice.endpoint_missing and not choice.confirm_origin:
            from duckflow_tui.model_choice import find_session_model, settle_model

            named = choice.flags.base_url or choice.flags.model
            try:
                if named or await asyncio.to_thread(find_session_model, choice) is not None:
                    self.choice = (await settle_model(choice)).choice
            except Unusable as refused:
                self.missing = str(refused)
        if self.choice.endpoint_missing:
            return None
        self.choice = await asyncio.to_thread(self.choice.load_keys)
        from duckflow_tui.session.faults import SessionFault

        try:
            return await self._stack.enter_async_context(
                open_session(self.choice, spawn, self.ending)
            )
        except SessionFault as fault:
            self.ending.fault = fault
            raise

    def use_model(
        self, ref: ModelRef, role: Role = "main", line: ModelLine | None = None
    ) -> ModelsInUse:
        """Have this model do a role from now on, in this process whatever flags and settings say,
        and in later ones where they name none. Waits for the disk and the keyring; raises OSError.
        """
        kept, at_hand = self.connections, self.models_at_hand()
        origin = CHOSEN_FOR_NOW
        if kept.find_connection(ref.endpoint) is not None:
            kept.choose_model(ref, role, line)
            origin = CHOSEN
        added = at_hand.endpoints.keys() - self.choice.settings.endpoints.keys()
        self._chosen |= dict.fromkeys((setting_of(name, "base_url") for name in added), CHOSEN)
        self._chosen[f"roles.{role}"] = origin
        roles = at_hand.roles.model_copy(update={role: str(ref)})
        settings = self.choice.settings.model_copy(
            update={"endpoints": dict(at_hand.endpoints), "roles": roles}
        )
        choice = replace(
            self.choice, settings=settings, keys=None, demo=False, endpoint_missing=False
        )
        self.choice = choice = choice.load_keys()
        known = choice.known.with_chosen(settings.endpoints[ref.endpoint].origin, line)
        return ModelsInUse(settings.endpoints, roles, choice.environ, known)

    def models_at_hand(self) -> ModelsInUse:
        """Every endpoint of the settings and every connection, with the keys that are kept. Waits
        for the disk and the keyring.
        """
        kept, settings = self.connections, self.choice.settings
        added = {c.name: c.endpoint for c in kept.all if c.name not in settings.endpoints}
        endpoints = settings.endpoints | added
        environ = {**kept.stored_keys(endpoints), **os.environ}
        return ModelsInUse(endpoints, settings.roles, environ, KnownModels.load(kept))

    @property
    def settings(self) -> Loaded:
        """The settings as they are now, and where each is from."""
        return Loaded(self.choice.settings, origins=self.choice.origins | self._chosen)

    def save_setting(
        self, key: str, value: object, say: Callable[..., str], *, by_flag: bool = False
    ) -> str:
        """Have this value under a dotted key in later sessions, of this process too; ``by_flag``: a
        flag set it in this one. Returns a sentence where a later start may have another value, else
        nothing. Waits for the disk.
        """
        from duckflow_tui.settings_file import save_setting

        places = self.choice.places
        said = save_setting(places, key, value, say, by_flag=by_flag)
        section, name = find_section(self.choice.settings, key)
        setattr(section, name, value)  # which every choice of this process shares
        after = load_settings(places)
        section, name = find_section(after.settings, key)
        kept = getattr(section, name) == value
        self._chosen[key] = after.origins.get(key, CHOSEN_FOR_NOW) if kept else CHOSEN_FOR_NOW
        return said

    @property
    def ports(self) -> tuple[int, ...]:
        """Of this machine, where servers are looked for."""
        return self.choice.settings.discovery.ports

    def needs_confirmation(self, endpoint: Endpoint) -> bool:
        """Whether the user has yet to allow plain http to this private address (R11)."""
        if find_need(endpoint, {}) != "confirmation":
            return False
        return not ConfirmedOrigins(self.choice.places.data).is_confirmed(endpoint.origin)

    @property
    def connections(self) -> Connections:
        """The user's choices on the screen."""
        data = self.choice.places.data
        return Connections(data, KeyStore(data, put_aside=self.put_aside))

    async def open_demo(self, spawn: Spawn) -> Engine:
        """The demo, chosen on the first screen."""
        self.choice = replace(self.choice, demo=True, endpoint_missing=False)
        return await self._stack.enter_async_context(open_session(self.choice, spawn, self.ending))

    def choose_resumed(self, session_id: str) -> None:
        """``open`` takes up this session; empty: it begins a new one."""
        self.choice = replace(self.choice, resume=session_id)

    async def open_resumed(self, session_id: str, spawn: Spawn) -> Engine:
        """Open another session of this workspace, with an empty id a new one; raises SessionFault,
        then the old one stays.
        """
        choice = replace(self.choice, resume=session_id)
        stack = AsyncExitStack()
        engine = await stack.enter_async_context(open_session(choice, spawn, self.ending))
        self.ending.freeze_older()
        left, self._stack, self.choice = self._stack, stack, choice
        await left.aclose()
        self.ending.forget_closed()
        return engine

    @property
    def catalog(self) -> Catalog:
        """All sessions of this user; the demo's are not among them."""
        if self._catalog is None:
            from duckflow_tui.session.catalog import Catalog

            self._catalog = Catalog(self.choice.places.state, redact=self.choice.redact)
        return self._catalog

    @property
    def folder(self) -> Path | None:
        """Where the open session is recorded; None while it is nowhere."""
        return self.ending.folder

    @property
    def unconfirmed_origin(self) -> str:
        """Plain http to a private address that waits for the user's word; empty for none."""
        return self.choice.confirm_origin

    def confirm_origin(self, origin: str = "") -> None:
        """The user confirmed plain http to this private address, or to the one that waits for it;
        raises OSError.
        """
        ConfirmedOrigins(self.choice.places.data).confirm_origin(
            origin or self.choice.confirm_origin
        )
        self.choice = replace(self.choice, confirm_origin="")

    def redact(self, text: str) -> str:
        """The text without keys and passwords."""
        return self.choice.redact(text)

    async def close(self) -> None:
        """Take down what was opened."""
        await self._stack.aclose()

    def freeze(self) -> None:
        """Record nothing more: the app ends, and the session goes on another time."""
        self.ending.freeze()
