"""The flags of the command line, and the fault of flags with which nothing can start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from duckflow_tui.settings import SettingProblem


class Unusable(Exception):
    """Flags or settings that nothing can be started with; the text is for the user. ``problems``
    are what else does not count in the settings.
    """

    def __init__(self, text: str, problems: tuple[SettingProblem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Flags:
    """The command line as typed; None where a flag was not given."""

    workspace: Path
    demo: bool = False
    mode: str | None = None
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    protocol: str | None = None
    context: int | None = None  # tokens of the model's window
    max_calls: int | None = None
    allow: tuple[str, ...] = ()  # exact commands, operations of servers; headless only (R19)
    theme: str | None = None
    animation: bool | None = None
    headless: bool = False
    resume: str = ""  # the id of a session to take up
    no_session: bool = False
    trust: bool = False  # what the folder brings along; headless only (R19)
    sandbox: str | None = None  # a level of the settings, or ``external``
