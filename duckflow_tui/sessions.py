"""Sessions of a running app: opens, resumes and closes them, and saves the user's choices of models
and settings.
"""

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
from duckflow_tui.llm.endpoints import Endpoint, ModelRef, ModelsInUse, setting_of
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.places import ConfirmedOrigins
from duckflow_tui.settings import (
    CHOSEN,
    CHOSEN_FOR_NOW,
    Loaded,
    Origin,
    change_setting,
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
    """Build the engine of one session and close it after the block; the caller starts the loops.
    Raises as ``compose.open_engine`` does.
    """
    compose = await asyncio.to_thread(_import_rooms, choice)
    async with compose.open_engine(choice, spawn, ending) as engine:
        yield engine


def _import_rooms(choice: SessionChoice) -> ModuleType:
    """Import the modules that this session needs and return ``compose``. Slow; call it in
    a thread.
    """
    if choice.demo:
        import_module("duckflow_tui.scripted.stage")
    if choice.demo or choice.settings.mcp.servers:
        import_module("duckflow_tui.tools.mcp.servers")
    return import_module("duckflow_tui.compose")


class Sessions:
    """The sessions that a screen opens one after another, and the choice they start from."""

    def __init__(self, choice: SessionChoice) -> None:
        self.choice = choice
        self.ending = Ending()
        self._stack = AsyncExitStack()
        self._catalog: Catalog | None = None
        self.put_aside: list[Path] = []  # new names of damaged files that were moved aside
        self._chosen: dict[str, Origin] = {}  # of settings chosen on the screen in this process
        self.missing = ""  # why a model that the flags named in part could not be chosen

    async def open(self, spawn: Spawn) -> Engine | None:
        """Open the chosen session and return its engine; None while no model is configured.

        A model that the flags name in part is completed where that is unambiguous; else ``missing``
        gets the reason. A resumed session uses the model that it had. Raises SessionFault.
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
        """Use this model for a role from now on and return the models in use. Overrides flags and
        settings in this process; a stored connection's model is also used in later processes
        whose flags and settings name none. Blocks on the disk and the keyring; raises OSError.
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
        """Return every endpoint of the settings and every stored connection, with the stored keys.
        Blocks on the disk and the keyring.
        """
        kept, settings = self.connections, self.choice.settings
        added = {c.name: c.endpoint for c in kept.all if c.name not in settings.endpoints}
        endpoints = settings.endpoints | added
        environ = {**kept.stored_keys(endpoints), **os.environ}
        return ModelsInUse(endpoints, settings.roles, environ, KnownModels.load(kept))

    @property
    def settings(self) -> Loaded:
        """The present settings, and the origin of each."""
        return Loaded(self.choice.settings, origins=self.choice.origins | self._chosen)

    def save_setting(
        self, key: str, value: object, say: Callable[..., str], *, by_flag: bool = False
    ) -> str:
        """Save a value under a dotted key, for this process's later sessions and later starts.
        ``by_flag``: a flag set it in this process. Returns a sentence for the user where a later
        start may have another value, else an empty string. Blocks on the disk.
        """
        from duckflow_tui.settings_file import save_setting

        places = self.choice.places
        said = save_setting(places, key, value, say, by_flag=by_flag)
        change_setting(self.choice.settings, key, value)  # shared by every choice of this process
        after = load_settings(places)
        section, name = find_section(after.settings, key)
        kept = getattr(section, name) == value
        self._chosen[key] = after.origins.get(key, CHOSEN_FOR_NOW) if kept else CHOSEN_FOR_NOW
        return said

    @property
    def ports(self) -> tuple[int, ...]:
        """Ports of this machine on which model servers are looked for."""
        return self.choice.settings.discovery.ports

    def needs_confirmation(self, endpoint: Endpoint) -> bool:
        """Whether the user has still to confirm plain http to this private address (R11)."""
        return self.choice.needs_confirmation(endpoint)

    @property
    def connections(self) -> Connections:
        """The stored connections, models and keys that the user chose on the screen; read again at
        each access.
        """
        data = self.choice.places.data
        return Connections(data, KeyStore(data, put_aside=self.put_aside))

    async def open_demo(self, spawn: Spawn) -> Engine:
        """Open the demo, which the user chose on the first screen, and return its engine."""
        self.choice = replace(self.choice, demo=True, endpoint_missing=False)
        return await self._stack.enter_async_context(open_session(self.choice, spawn, self.ending))

    def choose_resumed(self, session_id: str) -> None:
        """Set the session that ``open`` resumes; empty: a new one."""
        self.choice = replace(self.choice, resume=session_id)

    async def open_resumed(self, session_id: str, spawn: Spawn) -> Engine:
        """Open another session of this workspace, with an empty id a new one, then close the
        present one, and return the new engine. Raises SessionFault; the present session then
        stays open.
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
        """The catalog of all sessions of this user; sessions of the demo are not in it."""
        if self._catalog is None:
            from duckflow_tui.session.catalog import Catalog

            self._catalog = Catalog(self.choice.places.state, redact=self.choice.redact)
        return self._catalog

    @property
    def folder(self) -> Path | None:
        """The folder in which the open session is recorded; None where it is not recorded."""
        return self.ending.folder

    @property
    def unconfirmed_origin(self) -> str:
        """The private address that waits for the user's confirmation of plain http; empty
        for none.
        """
        return self.choice.confirm_origin

    def confirm_origin(self, origin: str = "") -> None:
        """Store that the user confirmed plain http to this private address, by default the waiting
        one. Raises OSError.
        """
        ConfirmedOrigins(self.choice.places.data).confirm_origin(
            origin or self.choice.confirm_origin
        )
        self.choice = replace(self.choice, confirm_origin="")

    def redact(self, text: str) -> str:
        """Return the text with keys and passwords replaced."""
        return self.choice.redact(text)

    async def close(self) -> None:
        """Close the open session."""
        await self._stack.aclose()

    def freeze(self) -> None:
        """Record nothing more, because the app ends; the session can be resumed later."""
        self.ending.freeze()
