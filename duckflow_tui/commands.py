"""The user's commands and keys: one table for composer, palette, keys, help, replay and headless
runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from duckflow_tui.manual import INDEX, TOPICS
from duckflow_tui.startup_facts import LANGUAGES, MODES, THEMES
from duckflow_tui.state.base import LocalizedText, half_width
from duckflow_tui.state.pace import MORE_LOOPS, TaskProfile, running_pace

if TYPE_CHECKING:
    from duckflow_tui.engine import Engine
    from duckflow_tui.state.agent import AgentState

    #: Shows the words of a key with their parameters; an empty key clears them; ``stays=True``:
    #: until the next key press.
    Say = Callable[..., None]
    #: Acts on a session with the command's argument.
    Act = Callable[[Engine, str, Say], Coroutine[Any, Any, None] | None]
    #: Returns the obstacle: None for none, else a key of the words, empty where nothing is said.
    #: The state is None while no session is open.
    When = Callable[[AgentState | None], str | None]

Takes = Literal[
    "",
    "language",
    "theme",
    "mode",
    "diff",
    "vitals",
    "profile",
    "undo",
    "anyway",
    "redo",
    "topic",
    "text",
]

AUTO: Final = "auto"  # leave the choice to the model
UNDO: Final = "undo"
ANYWAY: Final = "anyway"  # also files that were changed since
ALL: Final = "all"
IGNORED: Final = "ignored"  # also a command that overwrote only ignored files
ONE: Final = "one"  # file alone, not all that one answer allowed

CHOICES: Final[dict[Takes, tuple[str, ...]]] = {
    "language": LANGUAGES,
    "theme": THEMES,
    "mode": MODES,
    "diff": ("session", "last"),
    "vitals": ("auto", "always", "off"),
    "profile": (*(profile.value.lower() for profile in TaskProfile), AUTO),
    "undo": (UNDO,),
    "anyway": (ONE, ANYWAY, IGNORED),
    "redo": (ONE, ALL, ANYWAY),
    "topic": (INDEX, *TOPICS),
}

# --- conditions ---------------------------------------------------------------------------------


def always(_state: AgentState | None) -> str | None:
    """Return no obstacle: the command is also available without a session."""
    return None


def in_session(state: AgentState | None) -> str | None:
    """Return the obstacle of a command that needs a session: an empty key without one, since the
    screen itself tells how to get one.
    """
    return None if state is not None else ""


def with_endpoint(state: AgentState | None) -> str | None:
    """Return the obstacle of a command that needs a model: a key of the words while no session is
    open.
    """
    return None if state is not None else "shell.no_endpoint"


def while_messages_wait(state: AgentState | None) -> str | None:
    """Return the obstacle of a command that needs a queued message: a key of the words where the
    queue is empty.
    """
    return None if state is not None and state.queue else "shell.queue_empty"


def while_working(state: AgentState | None) -> str | None:
    """Return the obstacle of a command that needs a running turn: a key of the words
    without one.
    """
    runs = state is not None and state.pace is not None and state.turn is not None
    return None if runs else "pace.nothing_runs"


# --- actions on a session -----------------------------------------------------------------------


async def _ask_trust(session: Engine, _argument: str, say: Say) -> None:
    """Ask the user again whether the folder's notes and settings are trusted."""
    if not await session.trust.ask_again():
        say("trust.nothing")


async def _retry_request(session: Engine, _argument: str, say: Say) -> None:
    """Work on the last request again, or say that there is none to retry."""
    if not await session.retry():
        say("shell.nothing_to_retry")


def _grant_loops(session: Engine, _argument: str, say: Say) -> None:
    """Raise the loop limit of the running attempt."""
    state = session.store.state
    session.pace.extend_limit()
    pace = running_pace(state)
    say("pace.extended", count=MORE_LOOPS, limit=pace.limit.max_loops if pace is not None else 0)


def _choose_profile(session: Engine, argument: str, say: Say) -> None:
    """Set the kind of request to ``argument``, or leave it to the model with ``auto``."""
    if argument == AUTO:
        session.pace.choose_profile(None)
        say("profile.said_auto")
    else:
        session.pace.choose_profile(TaskProfile(argument.upper()))
        say("profile.said", profile=LocalizedText(key=f"choice.profile.{argument}"))


async def _compact_conversation(session: Engine, argument: str, say: Say) -> None:
    """Compact the conversation, with ``argument`` as a hint of what matters; ``undo`` reverts the
    newest compaction.
    """
    if argument.strip().lower() == UNDO:
        await undo_compaction(session, "", say)
        return
    say("compaction.runs")
    problem = await session.context.compact_by_hand(argument.strip())
    if problem:
        say(f"compaction.not.{problem}", stays=True)
    else:
        say("")


async def undo_compaction(session: Engine, compaction_id: str, say: Say) -> None:
    """Undo the newest compaction; with an id, only if it is that one. Says the result."""
    problem, figures = await session.context.undo_compaction(compaction_id)
    if problem:
        say(f"compaction.no_undo.{problem}", stays=True, **figures)
    else:
        say("compaction.undone")


async def _undo_changes(session: Engine, argument: str, _say: Say) -> None:
    """Undo the changes that the last approval allowed; ``argument`` selects a variant."""
    word = argument.lower()
    await session.undo(anyway=word == ANYWAY, one=word == ONE, ignored=word == IGNORED)


async def _redo_changes(session: Engine, argument: str, _say: Say) -> None:
    """Redo the changes undone last, or all undone changes with ``all``."""
    word = argument.lower()
    await session.redo(anyway=word == ANYWAY, one=word == ONE, whole=word == ALL)


def rename(session: Engine, argument: str, say: Say) -> None:
    """Name the session; an empty argument removes the name."""
    name = session.title.rename_session(argument)
    say("sessions.renamed" if name else "sessions.unnamed", name=name)


def add_denial(session: Engine, argument: str, say: Say) -> None:
    """Deny calls that match a rule in this session; ``argument`` is ``deny`` and the rule's words.
    Says what is denied now, or why the argument cannot be used.
    """
    verb, _, words = argument.strip().partition(" ")
    if verb != "deny" or not words.strip():
        say("rules.deny_how")
        return
    from duckflow_tui.safety.rules import find_rule_fault

    if (fault := find_rule_fault(words)) is not None:
        say(f"settings.why.{fault.key}", **fault.params)
        return
    session.rules.add_denial(words.strip())
    say("rules.denies_now", what=words.strip())


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """One action of the user: a command with a name, keys, or both.

    Without an argument, ``action`` of the app runs, or ``act`` on the session where there is no
    ``action``. With an argument, ``act`` runs, or ``action`` with the argument where there is no
    ``act``.
    """

    name: str
    action: str = ""
    act: Act | None = None
    takes: Takes = ""  # kind of its argument: a list in ``CHOICES``, or any text
    bare: bool = False  # runs without an argument instead of asking the user to choose one
    with_choice: str = ""  # the action with an argument, where it is another one
    when: When = in_session
    early: bool = False  # also while the session is being opened
    reads: bool = False  # does not change the session: a replay allows it
    keys: tuple[str, ...] = ()  # Textual's names, wherever the focus is
    label: str = ""  # the keys as they are printed
    help: str = ""  # key of the words that say what the keys do
    also: tuple[str, ...] = ()  # aliases, the names in other programs

    @property
    def text(self) -> str:
        """Key of the words that describe the command."""
        return f"commands.{self.name}"

    def acts_with(self, argument: str) -> bool:
        """Whether the command with this argument needs only the session, and no screen."""
        return self.act is not None and bool(argument or not self.action)

    def problem(self, argument: str, state: AgentState | None) -> LocalizedText | None:
        """Return why the command cannot run now with this argument; None where it can. An empty key
        means an obstacle that is not reported.
        """
        if (key := self.when(state)) is not None:
            return LocalizedText(key=key)
        values = CHOICES.get(self.takes, ())
        if argument and values and argument.lower() not in values:
            params = {"given": argument, "choices": ", ".join(values)}
            return LocalizedText(key="shell.no_choice", params=params)
        return None


def _make_key(action: str, label: str, help: str, *keys: str) -> Command:
    """Return an entry of the table that has keys but no name."""
    return Command("", action, when=always, reads=True, keys=keys, label=label, help=help)


def _open_pane(name: str, number: int = 0, takes: Takes = "") -> Command:
    """Return the command that opens a pane. A ``number`` gives it the keys Alt+number and
    F(number+1); ``takes`` an argument that the app's action of that name handles.
    """
    return Command(
        name,
        f"screen.pane('{name}')",
        takes=takes,
        with_choice=takes,
        when=always,
        reads=True,
        keys=(f"alt+{number}", f"f{number + 1}") if number else (),
        label=f"Alt+{number} · F{number + 1}",
        help="keys.panes",
    )


USER_CAN: Final[tuple[Command, ...]] = (
    Command("model", "model", takes="text", when=always, also=("models",)),
    Command("new", "new_session", when=with_endpoint, also=("clear", "reset")),
    Command("sessions", "sessions", when=always, also=("resume", "continue")),
    Command("undo", act=_undo_changes, takes="anyway", bare=True),
    Command("redo", act=_redo_changes, takes="redo", bare=True),
    _open_pane("diff", 3, takes="diff"),
    _open_pane("plan", 2),
    Command(
        "context",
        "page('context')",
        reads=True,
        keys=("alt+5",),
        label="Alt+5",
        help="keys.context_page",
        also=("tokens",),
    ),
    Command(
        "compact", act=_compact_conversation, takes="text", when=with_endpoint, also=("summarize",)
    ),
    Command(
        "rewind",
        "page('rewind')",
        takes="undo",
        with_choice="undo_rewind",
        when=with_endpoint,
        also=("restore", "checkpoint"),
    ),
    Command("mode", "mode", takes="mode", also=("approvals",)),
    Command("rules", "page('rules')", add_denial, takes="text", reads=True, also=("permissions",)),
    Command("memory", "memory"),
    Command("remember", "remember", takes="text", when=always),
    Command("requirements", "page('requirements')", reads=True, also=("todos",)),
    Command("decisions", "page('decisions')", reads=True),
    Command("copy", "screen.copy", when=always, reads=True),
    Command("export", "export", takes="text", when=always, also=("share",)),
    Command("stats", "stats", when=always, also=("cost", "usage")),
    Command("mcp", "page('servers')", reads=True),
    Command("ps", "page('processes')", reads=True, also=("bashes", "tasks")),
    Command(
        "queue",
        "page('queue')",
        when=while_messages_wait,
        reads=True,
        keys=("alt+up",),
        label="Alt+↑",
        help="keys.open_queue",
    ),
    Command("more", act=_grant_loops, when=while_working),
    Command("retry", act=_retry_request),
    Command("pause", act=lambda session, _argument, _say: session.pause()),
    Command("stop", act=lambda session, _argument, _say: session.stop()),
    Command("working", "page('working')", reads=True),
    Command("plans", "page('plans')", reads=True),
    Command("profile", act=_choose_profile, takes="profile"),
    _open_pane("vitals", 4, takes="vitals"),
    _open_pane("chat", 1),
    Command("network", "page('network')", reads=True),
    Command("fork", "page('fork')", when=with_endpoint, also=("branch",)),
    Command("rename", "rename", rename, takes="text"),
    Command("settings", "settings", takes="text", when=always, reads=True, also=("config",)),
    Command("theme", "theme", takes="theme", when=always, early=True, reads=True),
    Command("lang", "language", takes="language", when=always, early=True, reads=True),
    Command("connect", "connect", when=always, also=("login",)),
    Command("probe", "probe", when=with_endpoint),
    Command("trust", act=_ask_trust),
    Command("doctor", "doctor", when=always, also=("status",)),
    Command(
        "keys",
        "keys",
        when=always,
        early=True,
        reads=True,
        keys=("f1",),
        label="F1",
        help="keys.help",
    ),
    Command(
        "help",
        "manual",
        takes="topic",
        bare=True,
        when=always,
        early=True,
        reads=True,
        also=("manual",),
    ),
    Command("quit", "quit_now", when=always, early=True, reads=True, also=("exit", "q")),
    _make_key("command_palette", "Ctrl+P", "keys.palette", "ctrl+p"),
    _make_key("cycle_mode", "Shift+Tab", "keys.cycle_mode", "shift+tab"),
    _make_key("screen.fold", "Ctrl+O", "keys.fold", "ctrl+o"),
    _make_key("redraw", "Ctrl+L", "keys.redraw", "ctrl+l"),
    _make_key("suspend_process", "Ctrl+Z", "keys.suspend", "ctrl+z"),
    _make_key(
        "screen.scroll_page(-1)|screen.scroll_page(1)|screen.scroll_line(-1)|screen.scroll_line(1)",
        "PgUp PgDn · Shift+↑ ↓",
        "keys.scroll_chat",
        *("pageup", "pagedown", "shift+up", "shift+down"),
    ),
    _make_key("screen.column", "F6 · Alt+0", "keys.column", "f6", "alt+0"),
    _make_key(
        "screen.move_border(-1)|screen.move_border(1)",
        "Alt+← →",
        "keys.move_border",
        *("alt+left", "alt+right"),
    ),
    _make_key("screen.search", "Ctrl+F", "keys.search", "ctrl+f"),
    _make_key("screen.escape", "Esc", "keys.escape", "escape"),
    _make_key("screen.interrupt", "Ctrl+C", "keys.interrupt", "ctrl+c"),
)

#: Names of the panes, in the order of their tabs.
PANES: Final = ("chat", "plan", "diff", "vitals")
#: Commands that can be typed, in the order of the palette.
COMMANDS: Final = tuple(command for command in USER_CAN if command.name)
_BY_NAME: Final = {name: command for command in COMMANDS for name in (command.name, *command.also)}

#: Text of this form is a command; ``/etc/hosts is wrong`` is a message. An input method may write
#: the slash in full width.
_TYPED: Final = re.compile(r"[/／]([^\W\d_][^\s/]*)(?:\s+(.*))?", re.DOTALL)

_STOPS: Final = ".:,;!?…。、，：；！？"  # punctuation that people write after a name

#: Commands of other programs that do not exist here; the catalogue has an answer for each.
ELSEWHERE: Final = frozenset(
    {"add-dir", "agents", "bug", "details", "editor", "hooks", "ide", "init", "logout", "mention"}
    | {"output-style", "plugin", "pr-comments", "review", "run", "skills", "statusline"}
    | {"terminal-setup", "thinking", "vim"}
)

#: Words that people type alone to leave a program.
_LEAVES: Final = frozenset({"exit", "quit", ":q", ":q!", ":wq"})


class Invocation(NamedTuple):
    """A typed command; ``command`` is None for an unknown name."""

    name: str
    command: Command | None
    argument: str


def parse_command(text: str) -> Invocation | None:
    """Parse the composer's text as a command; None for a message, or a path such as ``/etc``."""
    match = _TYPED.fullmatch(text.strip())
    if match is None:
        return None
    name, argument = half_width(match.group(1)), (match.group(2) or "").strip()
    command = _BY_NAME.get(name.lower())
    is_path = "." in name.rstrip(_STOPS) or os.path.exists(f"/{name}")
    is_path = is_path and name.lower() not in ELSEWHERE  # such as /run
    if command is None and is_path and ":" not in name:  # with a colon: a server's prompt
        return None
    if command is not None and command.takes in CHOICES:
        argument = half_width(argument)
    return Invocation(name, command, argument)


def describe_unknown(name: str) -> LocalizedText:
    """Return a message about an unknown command: the equivalent of another program's command, the
    nearest name, or neither.
    """
    plain = name.lower().rstrip(_STOPS)
    if plain in ELSEWHERE:
        return LocalizedText(key=f"elsewhere.{plain}")
    near = get_close_matches(plain, _BY_NAME, n=1)
    if not near:
        return LocalizedText(key="shell.no_command", params={"name": name})
    return LocalizedText(key="shell.nearest_command", params={"name": name, "near": near[0]})


def meant_by(text: str) -> tuple[str, str] | None:
    """Return the command that a message probably means, and the key of the notice about it; None
    for an ordinary message.

    Recognized are ``exit`` and its like alone, and a single line that begins with ``#`` and a
    space, which is a note in other programs.
    """
    text = text.strip()
    if half_width(text).lower() in _LEAVES:
        return "/quit", "shell.meant_quit"
    if re.fullmatch(r"[#＃]\s+\S.*", text):
        return f"/remember {text[1:].strip()}", "shell.meant_note"
    return None


def find_by_prefix(prefix: str) -> tuple[tuple[str, Command], ...]:
    """Return the commands with a name or alias that begins with the prefix, each with that name:
    the exact match first, then in the order of the palette, at last those matched by an alias
    only.
    """
    prefix = prefix.lower()
    named = [(name, c) for c in COMMANDS for name in (c.name, *c.also) if name.startswith(prefix)]
    named.sort(key=lambda found: (found[0] != prefix, found[0] != found[1].name))
    first: dict[str, tuple[str, Command]] = {}
    for name, command in named:
        first.setdefault(command.name, (name, command))
    return tuple(first.values())
