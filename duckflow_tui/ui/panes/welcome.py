"""The first screen: no model is configured; how to set one, and a demo that needs none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.reactive import var
from textual.widgets import Static

from duckflow_tui.ui.host import host_of
from duckflow_tui.ui.panes.rows import palette_of
from duckflow_tui.words.catalogue import Catalogue

#: Where servers on this machine listen by default: addresses, the same in every language.
LOCAL_SERVERS = (
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama.cpp", "http://127.0.0.1:8080/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
    ("LM Studio", "http://127.0.0.1:1234/v1"),
)


class Trouble(Protocol):
    """Something in the settings that does not count."""

    def words(self, say: Catalogue) -> str:
        """What and where, in the language of the catalogue."""
        ...


class DemoButton(Static):
    """One line that a click or Enter on the empty composer takes."""

    def on_click(self, event: events.Click) -> None:
        event.stop()
        host_of(self).session.start_demo()


class Welcome(VerticalScroll, can_focus=True):
    """Stands where the chat will be."""

    words: var[Catalogue] = var(Catalogue)

    def __init__(
        self, settings_path: str, troubles: Sequence[Trouble] = (), *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._settings_path = settings_path
        self._troubles = troubles

    def compose(self) -> ComposeResult:
        yield Static(markup=False, classes="welcome-head")
        yield DemoButton(markup=False, classes="welcome-demo")
        yield Static(markup=False, classes="welcome-text")

    def on_mount(self) -> None:
        self.invalidate()

    def watch_words(self) -> None:
        self.invalidate()

    def invalidate(self) -> None:
        """Write it in the language and the colours at hand."""
        if not self.query(DemoButton):
            return
        self.query_one(".welcome-text", Static).update(self._text())
        self.query_one(".welcome-head", Static).update(self._head())
        self.query_one(DemoButton).update(self._button())

    def _head(self) -> Content:
        palette = palette_of(self)
        parts: list[str | tuple[str, str]] = [
            (self.words("welcome.title"), f"bold {palette.accent}"),
            "\n",
            (self.words("welcome.why"), palette.quiet),
        ]
        for trouble in self._troubles:
            parts += ["\n", ("✗ ", palette.bad), (trouble.words(self.words), palette.text)]
        return Content.assemble(*parts)

    def _text(self) -> Content:
        palette = palette_of(self)
        quiet, name, code = palette.quiet, f"bold {palette.text}", palette.ai
        words = self.words
        parts: list[str | tuple[str, str]] = [
            (words("welcome.flag"), name),
            "\n",
            ("  duckflow-tui --base-url http://127.0.0.1:11434/v1 --model qwen3", code),
            "\n\n",
            (words("welcome.file"), name),
            (f"  {self._settings_path}", quiet),
            "\n",
            ('  [endpoints.local]\n  base_url = "http://127.0.0.1:11434/v1"\n', code),
            ('  [roles]\n  main = "local/qwen3"', code),
            "\n\n",
            (words("welcome.environment"), name),
            "\n",
            ("  DUCKFLOW_API_KEY", code),
            (f"  {words('welcome.key')}", quiet),
            "\n\n",
            (words("welcome.local"), name),
        ]
        for server, address in LOCAL_SERVERS:
            parts += ["\n", (f"  {server:<10}", quiet), (address, code)]
        return Content.assemble(*parts)

    def _button(self) -> Content:
        palette = palette_of(self)
        return Content.assemble(
            (" Enter ", f"bold {palette.on_accent} on {palette.accent}"),
            (f"  {self.words('welcome.demo')}", palette.text),
        )
