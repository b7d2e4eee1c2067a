"""``/context``: the size and parts of each request to a model, and the text that was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len

from duckflow_tui.prompting.budget import ASSUMED_CONTEXT
from duckflow_tui.prompting.compiler import request_room
from duckflow_tui.prompting.threads import full_share
from duckflow_tui.prompting.window import turns_left
from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import one_line
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import PARTS, PartName, PromptFigures
from duckflow_tui.ui.panes.context_blocks import (
    Limits,
    character_of,
    colour_of,
    legend_rows,
    meter_row,
    tokens_text,
)
from duckflow_tui.ui.panes.strips import Row, fit, pad
from duckflow_tui.ui.screens.list_page import ListPage
from duckflow_tui.ui.screens.list_source import PageAction, StateSource, color_parts, make_row
from duckflow_tui.words.figures import short_count, time_words
from duckflow_tui.work.requests import SentPart

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine


class ContextSource(StateSource[PromptFigures]):
    """The requests, newest first, with the parts of the chosen one by size. The cursor begins at
    the newest request of the conversation.
    """

    EMPTY: ClassVar[str] = "context.none"

    def on_open(self) -> None:
        """Put the cursor on the newest request of the conversation."""
        newest = reversed(self.state.requests)
        asked = (r.llm_id for r in newest if r.purpose == "main" and not r.aside)
        self.page.choose(next(asked, ""))

    def list_items(self) -> Mapping[str, PromptFigures]:
        return {request.llm_id: request for request in reversed(self.state.requests)}

    def get_main_action(self, item: PromptFigures) -> PageAction:
        """Return the action that opens the request's messages."""
        return self.make_session_action(
            "keys.context_open", lambda engine: self._open_request(engine, item)
        )

    def _open_request(self, engine: Engine, request: PromptFigures) -> None:
        """Open a page with the messages of a request; without their text, report that only figures
        are known.
        """
        parts = engine.context.list_sent_parts(request.llm_id)
        if parts is None:
            self.page.report(self.words("context.only_figures"))
            return
        size = tokens_text(request.tokens, request)
        title = self.words("context.sent_title", purpose=self._format_purpose(request), tokens=size)
        sent = SentSource(engine.store, title, _as_counted(parts, request))
        self.host.push_screen(ListPage[None](self.words, self.clock, [sent]))

    def get_title(self) -> str:
        """Return the title with the last request's size, its share of the window, and the
        forecast.
        """
        state, words = self.state, self.words
        usage = state.usage
        title = words("context.title")
        if not usage.last_context:
            return title
        about = "~" if usage.estimated else ""
        used = f"{about}{short_count(usage.last_context)}"
        window = usage.context_window
        if window:
            share = round(100 * usage.last_context / window)
            percent = share if share <= 100 else ">100"
            said = words("context.of", used=used, window=short_count(window), percent=percent)
        else:
            said = words("context.used", used=used, window=short_count(ASSUMED_CONTEXT))
        return f"{title}  {said} · {self._format_forecast()}"

    def _format_forecast(self) -> str:
        """Return how many turns fit before the conversation is compacted, in words."""
        room = request_room(self.state.usage.context_window)
        left = turns_left(self.state.requests, room)
        if left is None:
            return self.words("context.forecast.unknown")
        if left == 0:
            return self.words("context.forecast.next")
        key = "many" if left < 100 else "far"
        return self.words(f"context.forecast.{key}", count=left)

    def render_row(self, item: PromptFigures, width: int) -> Row:
        """Render purpose, tokens, share in common with the request before, and age."""
        palette, words = self.palette, self.words
        ago = time_words(self.clock.now() - item.at, words)
        figures = [f"{tokens_text(item.tokens, item):>6}"]
        if width >= 50:
            said = words("context.shared_short", share=f"{item.shared_part:.0%}")
            cells = cell_len(words("context.shared_short", share="00%"))
            figures.append(" " * (cells - cell_len(said)) + said if item.shared else " " * cells)
        if width >= 70:
            figures.append(f"{words('ledger.ago', time=ago):>10}")
        left = [(self._format_purpose(item), palette.text)]
        return make_row(width, left, [("  " + "  ".join(figures), palette.quiet)])

    def render_note(self, item: PromptFigures, width: int) -> list[Row]:
        """A meter of the request's tokens, with its legend from 50 cells of width on."""
        palette, limits = self.palette, self._find_limits(item)
        rows = [meter_row(item, width, palette, limits)]
        if width >= 50:  # else the list below says it
            rows += legend_rows(item, width, palette, self.words, limits)
        return rows

    def render_detail(self, item: PromptFigures, width: int, room: int) -> list[Row]:
        """Render a row for each part with tokens, share and bar, then facts in sentences."""
        palette, words = self.palette, self.words
        rows: list[Row] = [[]]
        names = max(cell_len(words(f"context.part.{part}")) for part in PARTS)
        for part in PARTS:
            size = getattr(item.parts, part)
            if not size:
                continue
            name = pad(words(f"context.part.{part}"), names)
            share = f"{size / max(item.tokens, 1):.0%}"
            count = f"{tokens_text(size, item):>7} {share:>4}"
            room_left = width - 8 - names - cell_len(count)
            longest = max(room_left // 3, 0)  # of a bar, which has a third of the row's rest
            bar = "━" * max(round(longest * size / max(item.tokens, 1)), 1 if longest else 0)
            room_left -= longest
            about = fit(words(f"context.about.{part}"), room_left) if room_left > 8 else ""
            rows.append(
                color_parts(
                    [
                        (f"{character_of(part)} ", colour_of(part, palette)),
                        (f"{name}  {count}  ", palette.text),
                        (pad(bar, longest), colour_of(part, palette)),
                        (f"  {about}", palette.faint),
                    ]
                )
            )
        rows.append([])
        for fact in self._list_facts(item):
            rows += self.wrap_text(fact, width)
        return rows

    def _list_facts(self, request: PromptFigures) -> Sequence[str]:
        """Return sentences about the request: shared beginning, how tokens were counted, limits,
        tokens that a compaction frees.
        """
        words = self.words
        shared = words("context.shared_none")
        if request.shared:
            tokens = tokens_text(request.shared, request)
            shared = words("context.shared", share=f"{request.shared_part:.0%}", tokens=tokens)
        counted = words("context.estimated" if request.estimated else "context.counted")
        facts = [shared, counted, words("context.forecast.about")]
        if (limits := self._find_limits(request)) is not None:
            at, reply = short_count(limits.compacts_at), short_count(limits.reply)
            facts.append(words("context.limits", at=at, reply=reply))
        engine = self.host.session.engine
        if engine is not None and request is self.state.requests[-1]:
            freed = engine.context.count_freeable()
            size = f"~{short_count(freed)}"
            facts.append(words("context.frees" if freed else "context.frees_nothing", tokens=size))
        return facts

    def _find_limits(self, request: PromptFigures) -> Limits | None:
        """Return the limits of a request of the conversation; None for other requests, or an
        unknown window.
        """
        if not request.window or request.purpose != "main" or request.aside:
            return None
        room, parts = request_room(request.window), request.parts
        fixed = parts.total - parts.conversation
        full = int(full_share(self.state) * max(room - fixed, 0))
        return Limits(reply=request.window - room, compacts_at=fixed + full)

    def _format_purpose(self, request: PromptFigures) -> str:
        """Return the purpose of the request in words, with its step."""
        said = self.words(f"context.purpose.{'aside' if request.aside else request.purpose}")
        for plan in self.state.plans:
            for number, step in enumerate(plan.steps, 1):
                if step.step_id == request.step_id and request.step_id:
                    name = visible_line(step.name)
                    return self.words("context.of_step", purpose=said, number=number, name=name)
        return said


def _as_counted(parts: tuple[SentPart, ...], request: PromptFigures) -> tuple[SentPart, ...]:
    """Return the parts with token counts scaled to those that the list shows for the request."""
    raw: dict[PartName, int] = {}
    for part in parts:
        raw[part.part] = raw.get(part.part, 0) + part.tokens
    whole = request.tokens / max(sum(raw.values()), 1)

    def size(part: SentPart) -> int:
        """Return the tokens of a part, scaled."""
        listed, estimated = getattr(request.parts, part.part), raw[part.part]
        if listed and estimated:
            return max(round(part.tokens * listed / estimated), 1)
        return max(round(part.tokens * whole), 1)

    return tuple(replace(part, tokens=size(part)) for part in parts)


class SentSource(StateSource[SentPart]):
    """The messages of one request as the endpoint received them; the full text of the
    chosen one.
    """

    EMPTY: ClassVar[str] = "context.none"

    def __init__(self, store: Store, title: str, parts: tuple[SentPart, ...]) -> None:
        super().__init__(store)
        self._title = title
        self.parts = parts

    def get_title(self) -> str:
        return self._title

    def list_items(self) -> Mapping[str, SentPart]:
        return {str(number): part for number, part in enumerate(self.parts)}

    def render_row(self, item: SentPart, width: int) -> Row:
        """Render part, role and name of a message, its beginning and its tokens."""
        palette, words = self.palette, self.words
        label = words(f"context.part.{item.part}")
        role = words(f"context.role.{item.role}") if item.role else ""
        name = visible_line(words.name_operations(item.name))
        begins = visible_line(one_line(item.text[: 4 * width], 2 * width))
        left = [
            (f"{character_of(item.part)} ", colour_of(item.part, palette)),
            (" · ".join(filter(None, (label, role, name))), palette.text),
            (f"  {begins}", palette.faint),
        ]
        return make_row(width, left, [(f"  ~{short_count(item.tokens)}", palette.quiet)])

    def render_detail(self, item: SentPart, width: int, room: int) -> list[Row]:
        """Render the full text of the message."""
        return self.wrap_text(make_visible(item.text), width, self.palette.text)
