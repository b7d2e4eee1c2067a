"""The stage of the demo: a copy of the sample project and the scripted endpoint beside it."""

from __future__ import annotations

import asyncio
import contextlib
import filecmp
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.player import StoryPlayer, tests_command
from duckflow_tui.scripted.replies import Script
from duckflow_tui.scripted.stories import OFFERED, choose_language, list_requests, load_story

PROJECT: Final = "little-shop"
MODEL: Final = "scripted-demo"

_SAMPLES: Final = Path(__file__).with_name("workspace")
_LITTER: Final = frozenset({"__pycache__", ".pytest_cache"})  # what running the tests leaves


@dataclass(slots=True)
class Stage:
    """The endpoint and the folder of a demo session. ``kept`` is set when the stage has been taken
    down.
    """

    base_url: str
    workspace: Path
    model: str
    stories: dict[str, str]  # the requests that begin them, by name
    own_state: Path  # for what the session keeps beside its project
    kept: Path | None = None  # the project that stays because something in it changed
    commands: tuple[str, ...] = ()  # may run in its workspace without a question: its tests

    @property
    def request(self) -> str:
        """The request that the demo suggests, and sends itself without a screen."""
        return next(iter(self.stories.values()))


@contextlib.asynccontextmanager
async def open_stage(
    language: str = "en", *, fast: bool = False, folder: Path | None = None
) -> AsyncGenerator[Stage]:
    """Copy the project to a new folder and serve the script on loopback.

    ``fast`` sends the replies without the pauses of a real model; ``folder`` must not exist yet
    and is a temporary one by default. Afterwards it is removed, unless a file of the project
    changed: then the project stays, and ``kept`` says where. Raises OSError when there is no room
    for the copy or no port to listen on.
    """
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="duckflow-demo-"))
    else:
        folder.mkdir(mode=0o700)
    folder = folder.resolve()
    workspace = folder / PROJECT
    stage: Stage | None = None
    try:
        await asyncio.to_thread(
            shutil.copytree, _SAMPLES / PROJECT, workspace, ignore=shutil.ignore_patterns(*_LITTER)
        )
        command = suite_command()
        spoken = choose_language(language)
        player = StoryPlayer(workspace, command, spoken, fast=fast)
        stories = [load_story(name, spoken) for name in OFFERED]
        async with ScriptedEndpoint(Script(models=(MODEL,)), author=player.reply) as server:
            stage = Stage(
                base_url=server.base_url,
                workspace=workspace,
                model=MODEL,
                stories=list_requests(language),
                own_state=folder / "state",
                commands=tuple(tests_command(command, story.tests) for story in stories),
            )
            yield stage
    finally:
        if stage is not None and _has_changed(workspace):
            stage.kept = workspace
            for other in folder.iterdir():
                if other != workspace:
                    shutil.rmtree(other, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def suite_command() -> str:
    """The command that runs the project's tests on this machine."""
    return f"{_python()} -m unittest -q"


def _has_changed(workspace: Path) -> bool:
    """Whether a file of the project came, went or changed; True where that cannot be read."""
    try:
        return workspace.exists() and _differs(
            filecmp.dircmp(_SAMPLES / PROJECT, workspace, ignore=[*_LITTER])
        )
    except OSError:
        return True


def _differs(found: filecmp.dircmp[str]) -> bool:
    """Whether two folders differ in a name, a kind or a content, at any depth."""
    odd = (found.left_only, found.right_only, found.common_funny, found.diff_files)
    return any(odd) or bool(found.funny_files) or any(map(_differs, found.subdirs.values()))


def _python() -> str:
    """How the project's tests are started: by ``python3`` where that is the Python that runs this
    program, else by its path; another one may be too old, or a stub that offers to install it.
    """
    found = shutil.which("python3")
    if found is not None and Path(found).resolve() == Path(sys.executable).resolve():
        return "python3"
    return shlex.quote(sys.executable)
