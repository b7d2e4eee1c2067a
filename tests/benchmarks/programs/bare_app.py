"""The yardstick: a Textual app of one input and one log. ``--openai`` imports the client too."""

from __future__ import annotations

import sys

from textual.app import App, ComposeResult
from textual.widgets import Input, Log


class BareApp(App[None]):
    """Nothing but somewhere to type and somewhere to write."""

    def compose(self) -> ComposeResult:
        yield Log()
        yield Input()

    def on_mount(self) -> None:
        self.query_one(Input).focus()


if __name__ == "__main__":
    if "--openai" in sys.argv:
        import openai

        assert openai.AsyncOpenAI
    BareApp().run()
