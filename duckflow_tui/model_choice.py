"""Chooses the model where neither the command line nor the settings name one completely.

Only an unambiguous model is chosen: the only model of the named server, the named model at the only
source that has it, or the only source's usual model. Otherwise Unusable lists the models found.
This module sends requests, so it runs after the first paint.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from duckflow_tui.choice import SessionChoice, Unusable, with_model
from duckflow_tui.llm.connections import ModelLine
from duckflow_tui.llm.discovery import (
    PROVIDERS,
    FoundServer,
    KnownKey,
    find_nearest,
    keys_here,
    reach_server,
    servers_here,
    usual_model,
)
from duckflow_tui.llm.endpoints import KEPT_KEY, Endpoint, key_name, resolve_key
from duckflow_tui.llm.errors import UNLISTED, LlmError
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import find_places
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.base import one_line
from duckflow_tui.words.catalogue import Catalogue

SHOWN: Final = 6  # models of one source that are named
LIST_S: Final = 8.0  # seconds that each provider has to list its models


class SettledChoice(NamedTuple):
    """A choice with a model, and a line that tells the user which one."""

    choice: SessionChoice
    line: str


class ModelSource(NamedTuple):
    """A place that may offer models: a server on this machine, or a provider whose key is in the
    environment.
    """

    endpoint: Endpoint
    label: str  # its name for the user
    known: KnownKey | None
    models: tuple[ModelLine, ...]
    fault: LlmError | None = None  # why its models are unknown


async def settle_model(choice: SessionChoice) -> SettledChoice:
    """Return the choice with the only model that fits. Raises Unusable with a text on what is
    missing and which models there are.
    """
    choice = await asyncio.to_thread(choice.load_keys)
    return await _Search(choice).find_choice()


def find_session_model(choice: SessionChoice) -> tuple[Endpoint, str] | None:
    """Return the endpoint and main model that the session to resume last used.

    None where no session is resumed, the flags name a server or model, or the session has none that
    can be used: it is a demo, cannot be read, or its connection was forgotten since.
    """
    flags = choice.flags
    if not choice.resume or flags.base_url or flags.model:
        return None
    workspace = os.path.realpath(choice.workspace)
    places = find_places(choice.places.state, choice.resume, workspace)
    try:
        session = open_to_read(places[0].path).state.session
    except (IndexError, SessionFault):
        return None
    endpoint = choice.settings.endpoints.get(session.endpoint)
    if session.demo or not session.model:
        return None
    if endpoint is None and session.base_url and not session.api_key_env.startswith(KEPT_KEY):
        endpoint = Endpoint(
            name=session.endpoint, base_url=session.base_url, api_key_env=session.api_key_env
        )
    return (endpoint, session.model) if endpoint is not None else None


class _Search:
    """One search for the model of a choice."""

    def __init__(self, choice: SessionChoice) -> None:
        self._choice = choice
        self._flags = choice.flags
        self._say = Catalogue(choice.language)
        self._path = str(choice.places.settings_file)

    async def find_choice(self) -> SettledChoice:
        """Return the only model that flags, resumed session and sources leave. Raises Unusable
        where there is none or several.
        """
        endpoints = self._choice.settings.endpoints
        before = await asyncio.to_thread(find_session_model, self._choice)
        if before is not None:
            endpoint, model = before
            if self._choice.needs_confirmation(endpoint):
                raise Unusable(self._say("cli.not_confirmed", origin=endpoint.origin))
            return self._make_choice(endpoint, model, endpoint.host)
        if self._flags.base_url is not None:
            return await self._choose_at(endpoints["cli"])
        if len(endpoints) == 1:
            return await self._choose_at(next(iter(endpoints.values())))
        if endpoints:
            raise Unusable(self._say("cli.no_model", path=self._path))
        sources = await self._find_sources()
        if self._flags.model:
            return self._choose_source_of(sources, self._flags.model)
        return self._choose_only_source(sources)

    async def _choose_at(self, endpoint: Endpoint) -> SettledChoice:
        """Ask the server for its models and choose the only one. Raises Unusable."""
        if self._choice.needs_confirmation(endpoint):
            raise Unusable(self._say("cli.not_confirmed", origin=endpoint.origin))
        environ = self._choice.environ
        key, variable = resolve_key(endpoint, environ) or "", key_name(endpoint, environ)
        try:
            found = await reach_server(endpoint.base_url, key, variable, LIST_S)
        except LlmError as error:
            raise Unusable(self._describe_error(error)) from None
        endpoint = endpoint.model_copy(update={"base_url": found.base_url})
        if len(found.models) == 1:
            return self._make_choice(endpoint, found.models[0].id, endpoint.host)
        raise Unusable(self._ask_which(endpoint.host, found.models))

    async def _find_sources(self) -> list[ModelSource]:
        """Find local servers, and providers with a key in the environment, each with its models.
        Raises Unusable where the key that the flags name is missing.
        """
        environ, named = self._choice.environ, self._flags.api_key_env
        keys = [key for key in keys_here(environ) if named in (None, key.variable)]
        if named is not None and not keys:
            raise Unusable(self._say("cli.unknown_key", name=visible_line(named)))
        ports = self._choice.settings.discovery.ports if named is None else ()
        servers, of_keys = await asyncio.gather(
            servers_here(ports), asyncio.gather(*(self._of_key(key) for key in keys))
        )
        return [*map(self._of_server, servers), *of_keys]

    def _of_server(self, server: FoundServer) -> ModelSource:
        """Return a local server as a source; with a fault where it wants a key."""
        endpoint = Endpoint(name="here", base_url=server.base_url)
        label = endpoint.host
        if server.kind:
            label = self._say("cli.found.server", kind=server.kind, host=endpoint.host)
        fault = LlmError("no_key_sent", host=endpoint.host, setting="--api-key-env")
        return ModelSource(
            endpoint, label, None, server.models, fault if server.wants_key else None
        )

    async def _of_key(self, known: KnownKey) -> ModelSource:
        """Ask a provider for its models and return it as a source; an error becomes its fault."""
        endpoint = known.connection.endpoint
        label = self._say("cli.found.key", host=endpoint.host, variable=known.variable)
        if self._choice.needs_confirmation(endpoint):
            return ModelSource(endpoint, label, known, (), LlmError("not_found"))
        key = resolve_key(endpoint, self._choice.environ) or ""
        try:
            found = await reach_server(known.base_url, key, known.variable, LIST_S)
        except LlmError as error:
            return ModelSource(endpoint, label, known, (), error)
        return ModelSource(endpoint, label, known, found.models)

    def _choose_source_of(self, sources: Sequence[ModelSource], model: str) -> SettledChoice:
        """Choose the only source that has the model. Raises Unusable."""
        having = [source for source in sources if any(line.id == model for line in source.models)]
        if not having and len(sources) == 1 and _has_no_list(sources[0]):
            having = [sources[0]]
        if len(having) == 1:
            return self._make_choice(having[0].endpoint, model, having[0].label)
        if having:
            labels = ", ".join(source.label for source in having)
            raise Unusable(self._say("cli.several_have", model=visible_line(model), labels=labels))
        if not sources:
            nowhere = self._say("cli.nowhere", model=visible_line(model))
            raise Unusable("\n".join([nowhere, *self._key_for(model)]))
        names = [line.id for source in sources for line in source.models]
        near = ", ".join(_show_name(name) for name in find_nearest(model, names, SHOWN))
        key = "cli.nobody_has" if near else "cli.nothing_like"
        sentence = self._say(key, model=visible_line(model), near=near)
        raise Unusable("\n".join([sentence, *self._list_sources(sources), *self._key_for(model)]))

    def _key_for(self, model: str) -> list[str]:
        """Return a hint at the variable for the key of the model's probable provider; empty where
        none is known or the key is set.
        """
        begins = model.casefold().partition("-")[0]
        known = next((k for k in PROVIDERS if k.default_model.partition("-")[0] == begins), None)
        if known is None or self._choice.environ.get(known.variable):
            return []
        return [self._say("cli.set_key", model=visible_line(model), variable=known.variable)]

    def _choose_only_source(self, sources: Sequence[ModelSource]) -> SettledChoice:
        """Choose the model of the only source: its only or its usual one. Raises Unusable."""
        if not sources:
            raise Unusable(self._say("cli.no_endpoint", path=self._path))
        if len(sources) > 1:
            raise Unusable("\n".join([self._say("cli.several"), *self._list_sources(sources)]))
        (source,) = sources
        if self._choice.needs_confirmation(source.endpoint):
            raise Unusable(self._say("cli.not_confirmed", origin=source.endpoint.origin))
        if source.fault is not None and not _has_no_list(source):
            raise Unusable(self._describe_error(source.fault))
        usual = source.known.default_model if source.known is not None else ""
        model = usual_model(source.known, source.models)
        if len(source.models) > 1 and not (usual and model.startswith(usual)):
            model = ""  # do not guess among several
        if not model:
            raise Unusable(self._ask_which(source.label, source.models))
        return self._make_choice(source.endpoint, model, source.label)

    def _make_choice(self, endpoint: Endpoint, model: str, label: str) -> SettledChoice:
        """Return the choice with this model, and the line about it."""
        line = self._say("cli.taken", model=_show_name(model), label=label)
        return SettledChoice(with_model(self._choice, endpoint, model), line)

    def _ask_which(self, label: str, models: Sequence[ModelLine]) -> str:
        """Return the message that asks the user to name one of the models."""
        if not models:
            return self._say("cli.no_models", label=label)
        return self._say("cli.which_model", label=label, names=self._name_models(models))

    def _name_models(self, models: Sequence[ModelLine]) -> str:
        """Return the first models by name, and the number of the others."""
        names = ", ".join(_show_name(line.id) for line in models[:SHOWN])
        more = len(models) - SHOWN
        return names + (self._say("cli.and_more", count=more) if more > 0 else "")

    def _list_sources(self, sources: Sequence[ModelSource]) -> list[str]:
        """Return a line for each source: its models, or why they are unknown."""
        lines: list[str] = []
        for source in sources:
            fault = source.fault
            names = self._describe_error(fault) if fault else self._name_models(source.models)
            lines.append(f"  {source.label}: {names}")
        return lines

    def _describe_error(self, error: LlmError) -> str:
        """Return a model error in words, on one line."""
        return visible_line(self._say(f"llm.error.{error.code}", **error.params))


def _has_no_list(source: ModelSource) -> bool:
    """Whether the source's server offers no list of models, which is optional."""
    return source.fault is not None and source.fault.code in UNLISTED


def _show_name(name: str) -> str:
    """Return a model's name, safe to show and cut to 80 characters."""
    return visible_line(one_line(name, 80))
