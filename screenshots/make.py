"""Take the pictures of the README: the real program on the demo, its keys pressed one by one.

``.venv/bin/python screenshots/make.py [PICTURE …]`` writes ``screenshots/<language>/<name>.svg``.
Two runs differ in seconds and token counts at most. Look at every picture that changed.
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, chdir
from pathlib import Path
from typing import Final
from unittest.mock import patch

os.environ.pop("NO_COLOR", None)
os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ["COLORTERM"] = "truecolor"
# The Python that runs this is found as ``python3``, as it is for most users.
os.environ["PATH"] = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"

from rich.cells import cell_len
from textual.pilot import Pilot

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.places import Places
from duckflow_tui.scripted.endpoint import Request
from duckflow_tui.scripted.player import StoryPlayer
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.scripted.stories import Language, list_requests
from duckflow_tui.sessions import Sessions
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.conversation import AssistantMessage
from duckflow_tui.state.gates import CardKind
from duckflow_tui.ui.app import DuckflowApp
from duckflow_tui.ui.session_host import AppOptions

FOLDER: Final = Path(__file__).resolve().parent
SIZE: Final = (120, 38)
LANGUAGES: Final = ("en", "ja")
DEADLINE_S: Final = 30.0
SETTLED_S: Final = 0.4  # a gate ignores keys for 0.3 s after it got the focus

QUESTIONS: Final = {"en": "How far are you?", "ja": "どこまで進みましたか?"}
WISHES: Final = {"en": "Skip the receipt, please.", "ja": "レシートは飛ばしてください。"}
REASONS: Final = {"en": "keep it to one line, please", "ja": "一行で済ませてください"}
FONTS: Final = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, Noto Sans Mono CJK JP, monospace"
_FONT_FACE: Final = re.compile(r"@font-face \{.*?\n    \}", re.S)
_TEXT: Final = re.compile(r'textLength="[^"]*"([^>]*>)([^<]*)(?=</text>)')
_CELL: Final = 12.2  # width of a cell in the picture
#: No port of this machine is asked.
_ENVIRON: Final = {"DUCKFLOW_DISCOVERY__PORTS": "[]"}
_SUFFIX: Final = re.compile(r"(duckflow-demo-)[a-z0-9_]{8}")


class HeldPlayer(StoryPlayer):
    """Stops in the middle of the first reply, so that a picture of it can be taken."""

    def reply(self, request: Request) -> Reply | None:
        """The reply, held after some words."""
        reply = super().reply(request)
        return reply and reply.model_copy(update={"hold": "picture", "hold_after": 24})


class QuickPlayer(StoryPlayer):
    """Without the pauses of a real model."""

    def __init__(
        self, workspace: Path, command: str, language: Language, *, fast: bool = False
    ) -> None:
        super().__init__(workspace, command, language, fast=True)


class Camera:
    """One run of the program, and what is done in it."""

    def __init__(self, app: DuckflowApp, pilot: Pilot[int], language: str) -> None:
        self._app = app
        self._pilot = pilot
        self._language = language

    async def until(self, holds: Callable[[AgentState], bool]) -> None:
        """Wait for the state, then for the screen to show it."""
        async with asyncio.timeout(DEADLINE_S):
            while self._app.session.engine is None or not holds(
                self._app.session.engine.store.state
            ):
                await self._pilot.pause(0.02)
        await self._pilot.pause(0.15)

    async def ask(self) -> None:
        """Send the request that the demo suggests."""
        await self.until(lambda _: bool(self._app.bench.composer.suggested))
        await self._pilot.press("enter")

    async def say(self, text: str) -> None:
        """Send a message."""
        await self.until(lambda _: bool(self._app.bench.composer))
        self._app.bench.composer.focus()  # an answer leaves the focus at the question
        self._app.bench.composer.replace_text(text)
        await self._pilot.press("enter")

    async def card(self, kind: CardKind) -> None:
        """Wait for a card of this kind and go to it."""
        await self.until(lambda state: any(card.kind is kind for card in state.cards))
        await self._go_to_question()

    async def answer(self, key: str) -> None:
        """Press a key until all of the card was on screen and it is answered."""
        card = self._state.cards[0].card_id
        for _ in range(9):
            if all(open_card.card_id != card for open_card in self._state.cards):
                return
            await self._pilot.press(key)
            await self._pilot.pause(SETTLED_S)
        raise TimeoutError("the card did not close")

    async def approved(self, count: int) -> None:
        """Go to this many gates, one after the other, and approve each."""
        for _ in range(count):
            await self.decide()
            await self.approve()

    async def decide(self, *keys: str) -> None:
        """Go to the gate that opens and press keys there."""
        await self.until(lambda state: bool(state.gates))
        await self._go_to_question()
        await self._pilot.press(*keys)
        await self._pilot.pause(SETTLED_S + 0.2)  # until the answer takes effect

    async def _go_to_question(self) -> None:
        """Give the focus to what waits, where another answer has not left it there."""
        if self._app.bench.composer.has_focus:
            await self._pilot.press("enter")
        await self._pilot.pause(SETTLED_S)

    async def end(self) -> None:
        """Wait for the end of the turn, and until it is drawn."""
        await self.until(lambda state: state.turn is None and state.last_turn is not None)
        chat = self._app.bench.talk.transcript
        await self.until(lambda _: chat is not None and not chat.is_moving)

    async def press(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        await self._pilot.press(*keys)
        await self._pilot.pause(0.1)

    async def write(self, text: str) -> None:
        """Type into what has the focus."""
        for character in text:
            await self._pilot.press(character)

    async def approve(self) -> None:
        """Press ``y`` until all of the request was on screen and it is approved."""
        gate = self._state.gates[0].gate_id
        for _ in range(9):
            if all(open_gate.gate_id != gate for open_gate in self._state.gates):
                return
            await self._pilot.press("y")
            await self._pilot.pause(SETTLED_S)
        raise TimeoutError("the gate did not close")

    @property
    def _state(self) -> AgentState:
        assert self._app.session.engine is not None
        return self._app.session.engine.store.state

    def take(self, name: str) -> None:
        """Write what is on the screen as a picture."""
        path = FOLDER / self._language / f"{name}.svg"
        path.parent.mkdir(exist_ok=True)
        path.write_text(plain(self._app.export_screenshot(title="duckflow-tui")), "utf-8")
        print(path.relative_to(FOLDER.parent))


def plain(svg: str) -> str:
    """The picture without what is fetched from elsewhere and what differs in each run."""
    svg = _FONT_FACE.sub("", svg)
    svg = svg.replace("font-family: Fira Code, monospace;", f"font-family: {FONTS};")
    svg = svg.replace("font-variant-east-asian: full-width;", "")
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    svg = _TEXT.sub(_in_cells, svg)
    svg = _SUFFIX.sub(r"\g<1>k3x9a2qd", svg)
    lines = (line.rstrip(" \t") for line in svg.split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


def _in_cells(text: re.Match[str]) -> str:
    """A run of text as wide as its cells; the export counts characters, and squeezes wide ones."""
    width = cell_len(html.unescape(text[2])) * _CELL
    return f'textLength="{width:g}"{text[1]}{text[2]}'


@asynccontextmanager
async def camera(language: str, *, demo: bool = True, mode: str = "") -> AsyncGenerator[Camera]:
    """The program with a home of its own."""
    # The path of the settings in the pictures is none: what is written there goes with the folder.
    with tempfile.TemporaryDirectory() as home, chdir(home):
        places = Places.find({"DUCKFLOW_HOME": home})
        flags = Flags(workspace=Path(home), demo=demo, mode=mode or None, animation=False)
        sessions = Sessions(choose_session(flags, places, language, _ENVIRON))
        options = AppOptions(
            language=language,
            animation=False,
            title="little-shop" if demo else "my-project",
            settings_path="~/.config/duckflow/settings.toml",
        )
        app = DuckflowApp(sessions, options)
        try:
            async with app.run_test(size=SIZE) as pilot:
                await pilot.pause()
                yield Camera(app, pilot, language)
        finally:
            await sessions.close()


async def welcome(language: str) -> None:
    """No model is configured; a key is in the environment."""
    with patch.dict(os.environ, {"OPENAI_API_KEY": "a-key"}):
        async with camera(language, demo=False) as shot:
            await shot.press("escape")
            shot.take("first-screen")


async def streaming(language: str) -> None:
    """The reply while it is being written."""
    with patch("duckflow_tui.scripted.stage.StoryPlayer", HeldPlayer):
        async with camera(language) as shot:
            await shot.ask()
            await shot.until(
                lambda state: any(len("".join(live.text)) > 8 for live in state.live.values())
            )
            shot.take("streaming")


async def gate(language: str) -> None:
    """A proposal, its approval, and the end."""
    async with camera(language) as shot:
        await shot.ask()
        await shot.decide()
        shot.take("gate")
        await shot.approve()
        await shot.end()
        shot.take("done")


async def rejected(language: str) -> None:
    """A refusal with a reason, and what comes of it."""
    async with camera(language) as shot:
        await shot.ask()
        await shot.decide("n")
        await shot.write(REASONS[language])
        await shot.press("enter")
        await shot.decide()
        shot.take("rejected")


async def refused(language: str) -> None:
    """Plan mode: nothing is changed."""
    async with camera(language, mode="plan") as shot:
        await shot.ask()
        await shot.end()
        shot.take("plan-mode")


async def plan(language: str) -> None:
    """A plan, its step with the red test, a question and a wish while it runs, and its end."""
    with patch("duckflow_tui.scripted.stage.StoryPlayer", QuickPlayer):
        async with camera(language) as shot:
            await shot.say(list_requests(language)["plan"])
            await shot.card(CardKind.PLAN)
            shot.take("plan")
            await shot.answer("y")
            await shot.until(lambda state: bool(state.gates))
            await shot.say(QUESTIONS[language])
            await shot.until(lambda state: _answers(state) == 1)
            await shot.say(WISHES[language])
            await shot.until(lambda state: bool(state.cards))
            shot.take("aside")
            await shot.approved(1)  # it is asked first, because it waited first
            await shot.card(CardKind.PLAN_CHANGE)
            shot.take("plan-change")
            await shot.answer("y")
            await shot.approved(1)
            await shot.until(lambda state: bool(state.gates))
            shot.take("plan-running")
            await shot.approved(2)
            await shot.end()
            shot.take("plan-done")


async def report(language: str) -> None:
    """Step by step: what came of a step, and how to go on."""
    with patch("duckflow_tui.scripted.stage.StoryPlayer", QuickPlayer):
        async with camera(language) as shot:
            await shot.say(list_requests(language)["plan"])
            await shot.card(CardKind.PLAN)
            await shot.press("o")
            await shot.approved(1)
            await shot.card(CardKind.REPORT)
            shot.take("report")


async def missed(language: str) -> None:
    """A part of the request is missing, a further attempt brings it, and what proves it."""
    with patch("duckflow_tui.scripted.stage.StoryPlayer", QuickPlayer):
        async with camera(language) as shot:
            await shot.say(list_requests(language)["savings"])
            await shot.approved(2)
            await shot.until(lambda state: bool(state.gates))  # the change that was missing
            shot.take("missed")
            await shot.approved(1)
            await shot.end()
            shot.take("met")
            await shot.say("/requirements")
            await shot.press("down", "down")
            shot.take("requirements")


async def consultation(language: str) -> None:
    """The work is stuck, and the user is asked how it should go on."""
    with patch("duckflow_tui.scripted.stage.StoryPlayer", QuickPlayer):
        async with camera(language) as shot:
            await shot.say(list_requests(language)["tax"])
            await shot.card(CardKind.CONSULTATION)
            shot.take("consultation")


def _answers(state: AgentState) -> int:
    return sum(isinstance(m, AssistantMessage) and m.aside for m in state.messages)


SCENES: Final[dict[str, Callable[[str], Awaitable[None]]]] = {
    "first-screen": welcome,
    "streaming": streaming,
    "gate": gate,
    "rejected": rejected,
    "plan-mode": refused,
    "plan": plan,
    "report": report,
    "missed": missed,
    "consultation": consultation,
}


async def main(names: list[str]) -> None:
    """Take these pictures, or all.

    ``done`` comes with ``gate``, ``met`` and ``requirements`` with ``missed``, those of a plan
    with ``plan``.
    """
    for language in LANGUAGES:
        for name in names or SCENES:
            await SCENES[name](language)


if __name__ == "__main__":
    # A short folder, so that the path in the last reply is what most users see.
    with patch.object(tempfile, "tempdir", "/tmp"):
        asyncio.run(main(sys.argv[1:]))
