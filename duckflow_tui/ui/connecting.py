"""The flow for connecting models, on the first screen and later: finding sources, asking servers,
choosing a model.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import ValidationError

from duckflow_tui.llm.connections import ModelConnection, ModelLine
from duckflow_tui.llm.endpoints import (
    CLI_ENDPOINT,
    Endpoint,
    ModelRef,
    ModelsInUse,
    resolve_key,
    setting_of,
)
from duckflow_tui.llm.errors import UNLISTED, LlmError
from duckflow_tui.llm.known_models import KnownModels
from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.settings import CHOSEN
from duckflow_tui.state.base import one_line
from duckflow_tui.state.turn import TurnStarted
from duckflow_tui.state.usage import Role
from duckflow_tui.words.figures import short_count

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.llm.discovery import FoundServer, KnownKey
    from duckflow_tui.llm.probe import ProbeReport
    from duckflow_tui.state.agent import AgentState
    from duckflow_tui.state.store import Record
    from duckflow_tui.ui.app import DuckflowApp
    from duckflow_tui.ui.screens.model_list import ModelList
    from duckflow_tui.words.catalogue import Catalogue

SourceKind = Literal["server", "key", "kept", "form", "with_key", "again", "demo"]

_KEY: Final = re.compile(r"[^\s.:/]{20,}")  # longer than names of machines without a dot
REFUSED: Final = ("auth", "no_key_sent", "forbidden", "bad_key")


class Source(NamedTuple):
    """A line of the list of sources: a server, a key, a stored connection, or an action."""

    kind: SourceKind
    server: FoundServer | None = None
    known: KnownKey | None = None
    kept: ModelConnection | None = None

    def describe(self, say: Catalogue) -> tuple[str, str]:
        """Return its name and its description."""
        if self.server is not None:
            host, count = host_of_url(self.server.base_url), len(self.server.models)
            key = "wants_key" if self.server.wants_key else "no_models" if not count else "models"
            return self.server.kind or say("connect.server"), say(
                f"connect.has.{key}", host=host, count=count
            )
        if self.known is not None:
            return self.known.provider, say("connect.has.key", variable=self.known.variable)
        if self.kept is not None:
            place = say(f"connect.place.{self.kept.key_place}", variable=self.kept.variable)
            return self.kept.name, f"{host_of_url(self.kept.base_url)} · {place}"
        return say(f"connect.source.{self.kind}"), say(f"connect.about.{self.kind}")


class NotTaken(Exception):
    """Raised where a typed address cannot be used. ``said`` is the message for the user, empty
    where they know already; ``code`` is the error code of the server's answer, if any,
    ``address`` the address asked.
    """

    def __init__(self, said: str, code: str = "", address: str = "") -> None:
        super().__init__(said)
        self.said = said
        self.code = code
        self.address = address


def host_of_url(base_url: str) -> str:
    """Return host and port of an address, safe to show."""
    return visible_line(urlsplit(base_url).netloc)


def fault_words(
    error: LlmError, say: Catalogue, variable: str = "", *, by_flag: bool = True
) -> str:
    """Return an error and its remedy in words. ``variable`` is the environment variable of the key,
    empty for a typed key; ``by_flag=False``: the address was chosen on the screen, so no flag is
    named.
    """
    code, params = error.code, error.params
    if not by_flag and error.setting == setting_of(CLI_ENDPOINT, "base_url"):
        params["setting"] = say("connect.fault.address")
    if code in ("auth", "forbidden", "no_key_sent", "bad_key"):
        code = "refused_key" if code in ("auth", "forbidden") else code
        where = "variable" if variable and code == "refused_key" else "written"
        params["variable"] = variable
        return visible_line(one_line(say(f"connect.fault.{code}.{where}", **params), 400))
    return visible_line(one_line(say(f"llm.error.{code}", **params), 400))


def report_words(report: ProbeReport, say: Catalogue) -> str:
    """Return the observed abilities of a model in words."""
    if report.error is not None and not report.answers:
        return fault_words(report.error, say)
    parts = [say("connect.tried.streams" if report.streams else "connect.tried.whole")]
    calls = {True: "calls", False: "no_calls", None: "no_call_made"}[report.native_calls]
    parts.append(say(f"connect.tried.{calls}"))
    if report.json_schema is not None:
        parts.append(say(f"connect.tried.{'schema' if report.json_schema else 'no_schema'}"))
    context = report.context or KnownModels().facts_of("", report.model).context
    if context:
        parts.append(say("connect.tried.context", tokens=short_count(context)))
    if report.tokens_per_s:
        parts.append(say("connect.tried.speed", count=f"{report.tokens_per_s:.0f}"))
    return " · ".join(parts)


class Connecting:
    """The flow for connecting models; one for the app. ``changed`` is called whenever the lists or
    messages change.
    """

    def __init__(self, app: DuckflowApp) -> None:
        self._app = app
        self.servers: Sequence[FoundServer] = ()
        self.keys: Sequence[KnownKey] = ()
        self.looking = False
        self.chosen = False  # a model was chosen, and its session is being opened
        self.failure = ""  # why no session could be opened
        self.said = ""  # the message shown now
        self._trying = False  # a written address is being asked
        #: Address and key of a server without a list of models; sent again, they are accepted.
        self._unlisted: tuple[str, str] | None = None
        self.changed: Callable[[], None] = lambda: None

    # --- sources -------------------------------------------------------------------------------

    async def look_for_sources(self) -> None:
        """Look for local servers, and for keys in the environment; sends no key."""
        from duckflow_tui.llm.discovery import keys_here, servers_here

        if self.looking:
            return
        self.looking = True
        self.show_message("")
        self.keys = keys_here(os.environ)
        ports = self._app.session.sources.ports
        try:
            self.servers = await servers_here(ports) if ports else ()
        finally:
            self.looking = False
        self.changed()

    @property
    def first_sources(self) -> list[Source]:
        """The lines of the first screen; during the search only those that will not change."""
        if self.looking:
            return [Source("with_key"), Source("demo")]
        again = () if self.servers or self.keys else (Source("again"),)
        return [*self._found_sources(()), Source("with_key"), *again, Source("demo")]

    def later_sources(self, kept: Sequence[ModelConnection]) -> list[Source]:
        """Return the lines of ``/connect``: the stored connections, then other sources."""
        mine = [Source("kept", kept=one) for one in kept]
        return [*mine, *self._found_sources([one.base_url for one in kept]), Source("form")]

    def _found_sources(self, but: Sequence[str]) -> list[Source]:
        """Return servers and keys as sources, without those at an address in ``but``."""
        servers = [Source("server", server=s) for s in self.servers if s.base_url not in but]
        keys = [Source("key", known=k) for k in self.keys if k.base_url not in but]
        return servers + keys

    def show_message(self, said: str) -> None:
        """Show a message on the first screen, else in the status line; empty clears it."""
        before, self.said = self.said, said
        self.changed()
        if (said or before) and self._app.bench.talk.welcome is None:
            self._app.report(said)

    # --- connecting ----------------------------------------------------------------------------

    async def take_source(self, source: Source) -> None:
        """Perform the action of a line: offer models, open a form, search again, or start the demo.
        A problem is shown.
        """
        words = self._app.words
        if source.server is not None:
            server = source.server
            if server.wants_key:
                await self.write_connection(server.base_url)
            elif not server.models:
                self.show_message(words("connect.no_models", host=host_of_url(server.base_url)))
            else:
                wanted = server.kind.lower().replace(" ", "-") or "local"
                await self._offer_models(
                    self._name_connection(wanted, server.base_url), "", server.models
                )
        elif source.known is not None:
            await self._take_key(source.known)
        elif source.kept is not None:
            await self.choose_model(source.kept.name)
        elif source.kind in ("form", "with_key"):
            await self.write_connection()
        elif source.kind == "again":
            await self.look_for_sources()
        else:
            self._app.session.start_demo()

    async def _take_key(self, known: KnownKey) -> None:
        """Use a key of the environment: ask its provider for models and offer them."""
        from duckflow_tui.llm.discovery import reach_server, usual_model

        words = self._app.words
        self.show_message(words("connect.asking", host=host_of_url(known.base_url)))
        models: Sequence[ModelLine] = ()
        try:
            key = os.environ.get(known.variable, "").strip()
            models = (await reach_server(known.base_url, key, known.variable)).models
        except LlmError as error:
            said = fault_words(error, words, known.variable, by_flag=False)
            if error.code in REFUSED:
                self.show_message("")
                await self.write_connection(known.base_url, said)
                return
            if error.code not in UNLISTED or not known.default_model:
                self.show_message(said)
                return
        self.show_message("")
        connection = self._name_connection(known.connection.name, known.base_url).model_copy(
            update={"key_place": "variable", "variable": known.variable}
        )
        await self._offer_models(connection, "", models, usual_model(known, models))

    def _name_connection(self, wanted: str, base_url: str) -> ModelConnection:
        """Return the stored connection to this address, or a new one with a free name like
        ``wanted``.
        """
        sources = self._app.session.sources
        kept = sources.connections
        same = next((one for one in kept.all if one.base_url == base_url), None)
        if same is not None:
            return same
        taken = sources.models_at_hand().endpoints
        name = kept.free_name(wanted)
        while name in taken:
            name = kept.free_name(f"{name}-x")
        return ModelConnection(name=name, base_url=base_url)

    async def write_connection(self, address: str = "", problem: str = "") -> None:
        """Open the form for address and key, then offer the server's models."""
        from duckflow_tui.ui.screens.connect_form import ConnectForm

        app = self._app
        place = await asyncio.to_thread(app.session.sources.connections.keys.find_place)
        path = str(app.session.sources.connections.keys.file)
        form = ConnectForm(app.words, address, problem, place, path)
        written = await app.push_screen_wait(form)
        if written is None:
            return
        update = {"key_place": written.place, "variable": written.variable}
        connection = self._make_connection(written.base_url).model_copy(update=update)
        await self._offer_models(connection, written.secret, written.models)

    async def try_address(self, typed: str) -> None:
        """Ask the server at this address for models, without a key, and offer them. If it wants a
        key, the form opens; other errors are shown.
        """
        if self._trying:
            return
        self._trying = True
        try:
            address, models = await self.ask_address(typed, self.show_message)
        except NotTaken as error:
            if error.code in REFUSED:
                self.show_message("")
                await self.write_connection(error.address, error.said)
            else:
                self.show_message(error.said)
            return
        finally:
            self._trying = False
        self.show_message("")
        await self._offer_models(self._make_connection(address), "", models)

    async def ask_address(
        self, typed: str, say: Callable[[str], None], secret: str = "", variable: str = ""
    ) -> tuple[str, Sequence[ModelLine]]:
        """Ask the server at a typed address. Return the address that answers, and its models.

        ``say`` shows progress; ``variable`` is the environment variable of the key ``secret``.
        Raises NotTaken; for a server without a list of models only the first time, because the list
        is optional.
        """
        from duckflow_tui.llm.discovery import address_of, reach_server

        words, sources = self._app.words, self._app.session.sources
        if _KEY.fullmatch(typed.strip()):  # a key, which would be sent as a host name in the clear
            sources.choice.withhold_secrets([typed.strip()])
            raise NotTaken(words("connect.form.a_key"))
        address = address_of(typed, secret)
        if not address:
            raise NotTaken(words("connect.form.no_address"))
        try:
            endpoint = Endpoint(name="new", base_url=address, api_key_env=variable)
        except ValidationError as error:
            kind = error.errors(include_url=False, include_input=False)[0]["type"]
            why = words(f"settings.why.{kind}")
            raise NotTaken(words("connect.form.not_so", reason=why)) from None
        if variable and not secret:
            name = visible_line(variable)
            raise NotTaken(words("connect.form.no_variable", variable=name))
        if not await self._may_ask(endpoint):
            raise NotTaken("")
        say(words("connect.asking", host=host_of_url(address)))
        try:
            found = await reach_server(address, secret, variable)
        except LlmError as error:
            said = fault_words(error, words, variable, by_flag=False)
            before, self._unlisted = self._unlisted, None
            if error.code in UNLISTED:
                if before == (address, secret):
                    return address, ()
                self._unlisted = address, secret
                said = f"{said} {words('connect.form.unlisted')}"
            raise NotTaken(said, error.code, address) from None
        return found.base_url, found.models

    async def _may_ask(self, endpoint: Endpoint) -> bool:
        """Return whether requests may go to the endpoint; asks once to confirm plain http to a
        private address (R11).
        """
        from duckflow_tui.ui.screens.confirm import Confirm

        app, sources = self._app, self._app.session.sources
        if not sources.needs_confirmation(endpoint):
            return True
        question = Confirm(app.words, app.clock, "origin", origin=endpoint.origin)
        if await app.push_screen_wait(question) != "yes":
            return False
        sources.confirm_origin(endpoint.origin)
        return True

    def _make_connection(self, base_url: str) -> ModelConnection:
        """Return a connection to this address, named after its host."""
        wanted = (urlsplit(base_url).hostname or "server").removeprefix("api.")
        return self._name_connection(wanted.removesuffix(".com"), base_url)

    # --- models -------------------------------------------------------------------------------

    async def _offer_models(
        self, connection: ModelConnection, secret: str, models: Sequence[ModelLine], best: str = ""
    ) -> None:
        """Let the user choose a model of a connection, ``best`` listed first, then store the
        connection and use the model.
        """
        from duckflow_tui.ui.screens.model_list import ModelList

        app = self._app
        offered = list(models) or ([ModelLine(id=best)] if best else [])
        offered.sort(key=lambda line: line.id != best)
        lines = {str(ModelRef(connection.name, line.id)): line for line in offered}
        title = app.words("models.first", host=host_of_url(connection.base_url))
        page = ModelList(app.words, title, connection.name, self)
        page.offer_lines(lines)
        page.all_listed()
        value = await app.push_screen_wait(page)
        if value is None:
            return

        def keep() -> None:
            """Store the connection with its key."""
            app.session.sources.connections.add_connection(connection, secret)

        await self._use_model(ModelRef.parse(value), page.role, lines.get(value), keep)

    async def _use_model(
        self,
        ref: ModelRef,
        role: Role,
        line: ModelLine | None,
        keep: Callable[[], None] = lambda: None,
    ) -> None:
        """Use the model for this role from now on; ``keep`` stores its connection first. Opens a
        session where none is open.
        """
        app, session = self._app, self._app.session

        def use() -> ModelsInUse:
            """Store the connection and use the model; raises OSError."""
            keep()
            return session.sources.use_model(ref, role, line)

        try:
            models = await asyncio.to_thread(use)
        except OSError as error:
            self.chosen = False
            self.show_message(app.words("connect.not_kept", reason=error.strerror or str(error)))
            return
        self.show_message("")
        engine = session.get_writable_engine()
        if engine is None or engine.store.state.session.demo:
            await session.begin()
            self.chosen, engine = False, session.get_writable_engine()
        elif not engine.choose_models(models):
            app.status.show_notice("connect.after_turn")
        self.say_put_aside()
        if engine is None:
            return
        origin = session.sources.choice.origins.get(f"roles.{role}", CHOSEN)
        if origin != CHOSEN:
            kind = "file" if origin.line else "variable" if origin.name else "flag"
            name, at = visible_line(origin.name), str(origin.line)
            engine.notices.say(f"connect.named_by.{kind}", name=name, line=at)
        if role == "main":
            app.spawn(self.try_behind(engine, line), "probe")

    async def choose_model(self, only: str = "", wanted: str = "") -> None:
        """Let the user choose among the models of all endpoints, or of the endpoint ``only``; the
        list is first filtered by ``wanted``.
        """
        from duckflow_tui.ui.screens.model_list import ModelList

        app, sources = self._app, self._app.session.sources
        at_hand = await asyncio.to_thread(sources.models_at_hand)
        names = [name for name in at_hand.endpoints if not only or name == only]
        if not names:
            await self.open_connect()
            return
        page = ModelList(app.words, app.words("models.title"), only, self, at_hand)
        page.wanted = wanted
        lines = sources.connections.lines
        kept = (*sources.connections.favourites, *lines)
        known = [ref for ref in kept if ref.endpoint in names]
        now = [ref for role in get_args(Role) if (ref := at_hand.roles.model_of(role)) is not None]
        page.offer_lines({str(r): lines.get(r) or ModelLine(id=r.model) for r in (*now, *known)})
        endpoints = [at_hand.endpoints[name] for name in names]
        asking = app.spawn(self._list_models(page, endpoints, at_hand.environ), "models")
        value = await app.push_screen_wait(page)
        asking.cancel()
        if value is not None:
            await self._use_model(ModelRef.parse(value), page.role, page.lines.get(value))

    async def _list_models(
        self, page: ModelList, endpoints: Sequence[Endpoint], environ: Mapping[str, str]
    ) -> None:
        """Ask all endpoints for their models at the same time, and add them to the page as they
        arrive.
        """

        async def ask(endpoint: Endpoint) -> None:
            """Ask one server for its models and add them, or show the fault."""
            from duckflow_tui.llm.discovery import reach_server

            key = resolve_key(endpoint, environ) or ""
            try:
                found = await reach_server(endpoint.base_url, key, endpoint.api_key_env)
            except LlmError as error:
                page.show_fault(fault_words(error, self._app.words, endpoint.api_key_env))
            else:
                page.offer_lines({f"{endpoint.name}/{line.id}": line for line in found.models})

        await asyncio.gather(*map(ask, endpoints))
        page.all_listed()

    def set_favourite(self, value: str, favourite: bool) -> None:
        """Store whether the model is a favourite."""
        kept = self._app.session.sources.connections
        try:
            kept.set_favourite(ModelRef.parse(value), favourite)
        except OSError as error:
            self.show_message(
                self._app.words("connect.not_kept", reason=error.strerror or str(error))
            )

        self.say_put_aside()

    def say_put_aside(self) -> None:
        """Report each damaged file of choices that was moved aside, with its new name."""
        session = self._app.session
        engine, aside = session.get_writable_engine(), session.sources.put_aside
        while aside:
            path = visible_line(str(aside.pop()))
            if engine is not None:
                engine.notices.warn("connect.put_aside", path=path)
            else:
                self.show_message(self._app.words("connect.put_aside", path=path))

    async def open_connect(self) -> None:
        """Open the page of connections and sources, and perform the chosen line's action."""
        from duckflow_tui.ui.screens.connect import ConnectSource
        from duckflow_tui.ui.screens.list_page import ListPage

        app = self._app
        connections = app.session.sources.connections
        sources = [ConnectSource(self, connections)]
        page = ListPage[Source | None](app.words, app.clock, sources)
        app.spawn(self.look_for_sources(), "discovery")
        source = await app.push_screen_wait(page)
        self.changed = lambda: None
        if source is not None:
            await self.take_source(source)

    # --- trying a model -----------------------------------------------------------------------

    async def try_behind(self, engine: Engine, line: ModelLine | None = None) -> None:
        """Probe the main model in the background and report its abilities in the chat. A turn that
        begins cancels this; the demo's model is not probed.
        """
        from duckflow_tui.llm.probe import probe_model

        state = engine.store.state
        if state.turn is not None or state.queue or state.session.demo:
            return
        models = engine.models
        ref = models.roles.model_of("main")
        assert ref is not None
        probing = asyncio.create_task(
            probe_model(
                models.endpoints[ref.endpoint], ref.model, models.environ, engine.learned, line
            )
        )

        def begun(_: AgentState, record: Record) -> None:
            """Cancel the probe once a turn begins."""
            if isinstance(record.event, TurnStarted):
                probing.cancel()

        forget = engine.store.subscribe(begun)
        try:
            report = await probing
        except asyncio.CancelledError:
            probing.cancel()
            if not engine.store.state.turn:
                raise
            return
        finally:
            forget()
        what = report_words(report, self._app.words)
        if not report.answers:
            engine.notices.warn("connect.tried_in_vain", what=what)
        else:
            engine.notices.say("connect.tried_well", model=ref.model, what=what)
