"""``/context``: what each request to a model was made of, and the text that was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.prompting.budget import ASSUMED_CONTEXT
from duckflow_tui.prompting.compiler import request_room
from duckflow_tui.prompting.threads import full_share
from duckflow_tui.prompting.window import turns_left
from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.base import one_line
from duckflow_tui.state.store import Store
from duckflow_tui.state.usage import PARTS, PartName, PromptFigures
from duckflow_tui.ui.panes.blocks import whole_seconds
from duckflow_tui.ui.panes.context_blocks import (
    Limits,
    character_of,
    colour_of,
    legend_rows,
    meter_row,
    short_tokens,
    tokens_text,
)
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import Row, fit, ink, pad, rows_of
from duckflow_tui.ui.screens.list_page import ListPage, PageAction, StateSource

if TYPE_CHECKING:
    from duckflow_tui.work.requests import SentPart


class ContextSource(StateSource):
    """The requests, the newest at the top; the parts of the chosen one in its window. The cursor
    begins at the newest of the conversation.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._store = store

    def on_open(self) -> None:
        newest = reversed(self.state.requests)
        asked = (r.llm_id for r in newest if r.purpose == "main" and not r.aside)
        self.page.choose(next(asked, ""))

    def get_main_action(self, row_id: str) -> PageAction:
        return self.make_action("keys.context_open", lambda: self._open_request(row_id))

    def _open_request(self, llm_id: str) -> None:
        request = self._find_request(llm_id)
        engine = self.host.session.acting() if request is not None else None
        if request is None or engine is None:
            return
        parts = engine.context.list_sent_parts(llm_id)
        if parts is None:
            self.page.report(self.words("context.only_figures"))
            return
        parts = _as_counted(parts, request)
        size = tokens_text(request.tokens, request)
        title = self.words("context.sent_title", purpose=self._format_purpose(request), tokens=size)
        sent = SentSource(self._store, title, parts)
        self.host.push_screen(ListPage[None](self.words, self.clock, [sent]))

    def get_title(self) -> str:
        state, words = self.state, self.words
        usage = state.usage
        title = words("context.title")
        if not usage.last_context:
            return title
        about = "~" if usage.estimated else ""
        used = f"{about}{short_tokens(usage.last_context)}"
        window = usage.context_window
        if window:
            share = round(100 * usage.last_context / window)
            percent = share if share <= 100 else ">100"
            said = words("context.of", used=used, window=short_tokens(window), percent=percent)
        else:
            said = words("context.used", used=used, window=short_tokens(ASSUMED_CONTEXT))
        return f"{title}  {said} · {self._format_forecast()}"

    def _format_forecast(self) -> str:
        room = request_room(self.state.usage.context_window)
        left = turns_left(self.state.requests, room)
        if left is None:
            return self.words("context.forecast.unknown")
        if left == 0:
            return self.words("context.forecast.next")
        key = "one" if left == 1 else "many" if left < 100 else "far"
        return self.words(f"context.forecast.{key}", count=left)

    def get_empty_text(self) -> str:
        return self.words("context.none")

    def list_ids(self) -> Sequence[str]:
        return [request.llm_id for request in reversed(self.state.requests)]

    def render_row(self, row_id: str, width: int) -> Row:
        palette, words = self.palette, self.words
        request = self._find_request(row_id)
        if request is None:
            return []
        ago = whole_seconds(max(0.0, self.clock.now() - request.at), words)
        figures = [f"{tokens_text(request.tokens, request):>6}"]
        if width >= 50:
            said = words("context.shared_short", share=f"{request.shared_part:.0%}")
            cells = cell_len(words("context.shared_short", share="00%"))
            figures.append(" " * (cells - cell_len(said)) + said if request.shared else " " * cells)
        if width >= 70:
            figures.append(f"{words('ledger.ago', time=ago):>10}")
        right: Row = [Segment("  " + "  ".join(figures), ink(palette.quiet))]
        left: Row = [Segment(self._format_purpose(request), ink(palette.text))]
        return two_sided(left, right, width)

    def render_note(self, row_id: str, width: int) -> list[Row]:
        """A meter of the request's tokens, with its legend from 50 cells of width on."""
        request = self._find_request(row_id)
        if request is None:
            return []
        palette = self.palette
        limits = self._find_limits(request)
        rows = [meter_row(request, width, palette, limits)]
        if width >= 50:  # else the list below says it
            rows += legend_rows(request, width, palette, self.words, limits)
        return rows

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        palette, words = self.palette, self.words
        request = self._find_request(row_id)
        if request is None:
            return []
        facts = [
            words(
                "context.shared",
                share=f"{request.shared_part:.0%}",
                tokens=tokens_text(request.shared, request),
            )
            if request.shared
            else words("context.shared_none"),
            words("context.estimated" if request.estimated else "context.counted"),
            words("context.forecast.about"),
        ]
        if (limits := self._find_limits(request)) is not None:
            at, reply = short_tokens(limits.compacts_at), short_tokens(limits.reply)
            facts.append(words("context.limits", at=at, reply=reply))
        rows: list[Row] = [[]]
        names = max(cell_len(words(f"context.part.{part}")) for part in PARTS)
        for part in PARTS:
            size = getattr(request.parts, part)
            if not size:
                continue
            share = f"{size / max(request.tokens, 1):.0%}"
            name_of = pad(words(f"context.part.{part}"), names)
            count = f"{tokens_text(size, request):>7} {share:>4}"
            row: Row = [
                Segment(f"{character_of(part)} ", ink(colour_of(part, palette))),
                Segment(f"{name_of}  {count}", ink(palette.text)),
            ]
            rest = width - 2 - names - 2 - cell_len(count) - 2
            if rest > 8:
                about = fit(words(f"context.about.{part}"), rest)
                row.append(Segment(f"  {about}", ink(palette.faint)))
            rows.append(row)
        rows.append([])
        for fact in facts:
            rows += rows_of([(fact, ink(palette.quiet))], width)
        return rows

    def _find_limits(self, request: PromptFigures) -> Limits | None:
        """Those of a request with the conversation in a window that is known."""
        if not request.window or request.purpose != "main" or request.aside:
            return None
        room, parts = request_room(request.window), request.parts
        fixed = parts.total - parts.conversation
        full = int(full_share(self.state) * max(room - fixed, 0))
        return Limits(reply=request.window - room, compacts_at=fixed + full)

    def _format_purpose(self, request: PromptFigures) -> str:
        """The purpose of the request, and its step."""
        said = self.words(f"context.purpose.{'aside' if request.aside else request.purpose}")
        for plan in self.state.plans:
            for number, step in enumerate(plan.steps, 1):
                if step.step_id == request.step_id and request.step_id:
                    name = visible_line(step.name)
                    return self.words("context.of_step", purpose=said, number=number, name=name)
        return said

    def _find_request(self, name: str) -> PromptFigures | None:
        return next((r for r in self.state.requests if r.llm_id == name), None)


def _as_counted(parts: tuple[SentPart, ...], request: PromptFigures) -> tuple[SentPart, ...]:
    """With the sizes that the list has: what each part is estimated at is a share of them."""
    raw: dict[PartName, int] = {}
    for part in parts:
        raw[part.part] = raw.get(part.part, 0) + part.tokens
    whole = request.tokens / max(sum(raw.values()), 1)

    def size(part: SentPart) -> int:
        listed, estimated = getattr(request.parts, part.part), raw[part.part]
        if listed and estimated:
            return max(round(part.tokens * listed / estimated), 1)
        return max(round(part.tokens * whole), 1)

    return tuple(replace(part, tokens=size(part)) for part in parts)


class SentSource(StateSource):
    """The messages of one request, as the endpoint got them; the text of the chosen one."""

    def __init__(self, store: Store, title: str, parts: tuple[SentPart, ...]) -> None:
        super().__init__(store)
        self._title = title
        self.parts = parts

    def get_title(self) -> str:
        return self._title

    def get_empty_text(self) -> str:
        return self.words("context.none")

    def list_ids(self) -> Sequence[str]:
        return [str(number) for number in range(len(self.parts))]

    def render_row(self, row_id: str, width: int) -> Row:
        palette, words = self.palette, self.words
        part = self.parts[int(row_id)]
        right: Row = [Segment(f"  ~{short_tokens(part.tokens)}", ink(palette.quiet))]
        label = words(f"context.part.{part.part}")
        role = words(f"context.role.{part.role}") if part.role else ""
        said = " · ".join(
            text for text in (label, role, visible_line(words.name_operations(part.name))) if text
        )
        begins = visible_line(one_line(part.text[: 4 * width], 2 * width))
        left: Row = [
            Segment(f"{character_of(part.part)} ", ink(colour_of(part.part, palette))),
            Segment(said, ink(palette.text)),
            Segment(f"  {begins}", ink(palette.faint)),
        ]
        return two_sided(left, right, width)

    def render_detail(self, row_id: str, width: int, room: int) -> list[Row]:
        text = make_visible(self.parts[int(row_id)].text)
        return rows_of([(text, ink(self.palette.text))], width)
