"""Which model answers where neither the command line nor the settings say it whole.

Only what is clear is taken: the one model of the server that was named, or the one source that has
the model that was named, or the one source there is. Everything else is said, with the models that
there are. Requests are made here, so nothing of it runs before the first paint.
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
from duckflow_tui.llm.endpoints import KEPT_KEY, Endpoint, find_need, key_name, resolve_key
from duckflow_tui.llm.errors import UNLISTED, LlmError
from duckflow_tui.places import ConfirmedOrigins
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.session.faults import SessionFault
from duckflow_tui.session.folders import find_places
from duckflow_tui.session.resume import open_to_read
from duckflow_tui.state.base import one_line
from duckflow_tui.words.catalogue import Catalogue

SHOWN: Final = 6  # models of one source that are named
LIST_S: Final = 8.0  # seconds that each provider has to list its models


class SettledChoice(NamedTuple):
    """A choice with a model, and the line that says which one was taken."""

    choice: SessionChoice
    line: str


class ModelSource(NamedTuple):
    """A server of this machine, or a key of the environment."""

    endpoint: Endpoint
    label: str  # as the user is told of it
    known: KnownKey | None
    models: tuple[ModelLine, ...]
    fault: LlmError | None = None  # why its models are not known


async def settle_model(choice: SessionChoice) -> SettledChoice:
    """The choice with the model that is clear; raises Unusable with what is missing and what there
    is.
    """
    choice = await asyncio.to_thread(choice.load_keys)
    return await _Search(choice).find_choice()


def find_session_model(choice: SessionChoice) -> tuple[Endpoint, str] | None:
    """The endpoint and the main model that the session to resume was last worked with. None where
    no session is resumed, the flags name a server or a model, or the session does not say it: it is
    the demo's, it cannot be read, or the user has forgotten the connection since.
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
    def __init__(self, choice: SessionChoice) -> None:
        self._choice = choice
        self._flags = choice.flags
        self._say = Catalogue(choice.language)
        self._path = str(choice.places.settings_file)

    async def find_choice(self) -> SettledChoice:
        """The one model that flags and findings leave. Raises Unusable where there is none or
        several.
        """
        endpoints = self._choice.settings.endpoints
        before = await asyncio.to_thread(find_session_model, self._choice)
        if before is not None:
            endpoint, model = before
            if self._needs_confirmation(endpoint):
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
        """The only model of the server that was named."""
        if self._needs_confirmation(endpoint):
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
        """Local servers and providers with a key in the environment, each with its models. Raises
        Unusable for a named key that is not there.
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
        """A local server as a source; its fault says that it wants a key."""
        endpoint = Endpoint(name="here", base_url=server.base_url)
        label = endpoint.host
        if server.kind:
            label = self._say("cli.found.server", kind=server.kind, host=endpoint.host)
        fault = LlmError("no_key_sent", host=endpoint.host, setting="--api-key-env")
        return ModelSource(
            endpoint, label, None, server.models, fault if server.wants_key else None
        )

    async def _of_key(self, known: KnownKey) -> ModelSource:
        """A provider as a source, asked for its models; an error becomes the source's fault."""
        endpoint = known.connection.endpoint
        label = self._say("cli.found.key", host=endpoint.host, variable=known.variable)
        if self._needs_confirmation(endpoint):
            return ModelSource(endpoint, label, known, (), LlmError("not_found"))
        key = resolve_key(endpoint, self._choice.environ) or ""
        try:
            found = await reach_server(known.base_url, key, known.variable, LIST_S)
        except LlmError as error:
            return ModelSource(endpoint, label, known, (), error)
        return ModelSource(endpoint, label, known, found.models)

    def _needs_confirmation(self, endpoint: Endpoint) -> bool:
        """Whether the user has to confirm first that requests go there (R11)."""
        confirmed = ConfirmedOrigins(self._choice.places.data).is_confirmed(endpoint.origin)
        return find_need(endpoint, self._choice.environ) == "confirmation" and not confirmed

    def _choose_source_of(self, sources: Sequence[ModelSource], model: str) -> SettledChoice:
        """The only source that has the model."""
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
        """Which variable the model may need: that of a provider whose models begin like it."""
        begins = model.casefold().partition("-")[0]
        known = next((k for k in PROVIDERS if k.default_model.partition("-")[0] == begins), None)
        if known is None or self._choice.environ.get(known.variable):
            return []
        return [self._say("cli.set_key", model=visible_line(model), variable=known.variable)]

    def _choose_only_source(self, sources: Sequence[ModelSource]) -> SettledChoice:
        """The only source there is, where it has one model, or a usual one."""
        if not sources:
            raise Unusable(self._say("cli.no_endpoint", path=self._path))
        if len(sources) > 1:
            raise Unusable("\n".join([self._say("cli.several"), *self._list_sources(sources)]))
        (source,) = sources
        if self._needs_confirmation(source.endpoint):
            raise Unusable(self._say("cli.not_confirmed", origin=source.endpoint.origin))
        if source.fault is not None and not _has_no_list(source):
            raise Unusable(self._describe_error(source.fault))
        usual = source.known.default_model if source.known is not None else ""
        model = usual_model(source.known, source.models)
        if len(source.models) > 1 and not (usual and model.startswith(usual)):
            model = ""  # the first of many is nobody's choice
        if not model:
            raise Unusable(self._ask_which(source.label, source.models))
        return self._make_choice(source.endpoint, model, source.label)

    def _make_choice(self, endpoint: Endpoint, model: str, label: str) -> SettledChoice:
        line = self._say("cli.taken", model=_show_name(model), label=label)
        return SettledChoice(with_model(self._choice, endpoint, model), line)

    def _ask_which(self, label: str, models: Sequence[ModelLine]) -> str:
        if not models:
            return self._say("cli.no_models", label=label)
        return self._say("cli.which_model", label=label, names=self._name_models(models))

    def _name_models(self, models: Sequence[ModelLine]) -> str:
        """The first models by name, and how many more there are."""
        names = ", ".join(_show_name(line.id) for line in models[:SHOWN])
        more = len(models) - SHOWN
        return names + (self._say("cli.and_more", count=more) if more > 0 else "")

    def _list_sources(self, sources: Sequence[ModelSource]) -> list[str]:
        """A line for each source: its models, or why they are not known."""
        lines: list[str] = []
        for source in sources:
            fault = source.fault
            names = self._describe_error(fault) if fault else self._name_models(source.models)
            lines.append(f"  {source.label}: {names}")
        return lines

    def _describe_error(self, error: LlmError) -> str:
        return visible_line(self._say(f"llm.error.{error.code}", **error.params))


def _has_no_list(source: ModelSource) -> bool:
    """Whether the server has no list of its models at all, which it need not have."""
    return source.fault is not None and source.fault.code in UNLISTED


def _show_name(name: str) -> str:
    return visible_line(one_line(name, 80))
