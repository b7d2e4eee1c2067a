"""The user's commands and keys, as one table for composer, palette, keys, help, replay and headless
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

    #: Says a key of the words with its params, empty for no more of it; ``stays=True``: until the
    #: next key.
    Say = Callable[..., None]
    #: Does something to a session, with what was written behind the command.
    Act = Callable[[Engine, str, Say], Coroutine[Any, Any, None] | None]
    #: What is in the way: None for nothing, else a key of the words, empty where nothing is said.
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

AUTO: Final = "auto"  # of a choice: the AI's
UNDO: Final = "undo"
ANYWAY: Final = "anyway"  # also over what somebody else changed since
ALL: Final = "all"
IGNORED: Final = "ignored"  # also what a command overwrote of ignored files alone
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

# --- when it is possible ------------------------------------------------------------------------


def always(_state: AgentState | None) -> str | None:
    """With a session and without."""
    return None


def in_session(state: AgentState | None) -> str | None:
    """Nothing is said without a session: the screen says how to get one."""
    return None if state is not None else ""


def with_endpoint(state: AgentState | None) -> str | None:
    """It asks a model, or leads to a request."""
    return None if state is not None else "shell.no_endpoint"


def while_messages_wait(state: AgentState | None) -> str | None:
    """There is something in the queue."""
    return None if state is not None and state.queue else "shell.queue_empty"


def while_working(state: AgentState | None) -> str | None:
    """An attempt runs."""
    runs = state is not None and state.pace is not None and state.turn is not None
    return None if runs else "pace.nothing_runs"


# --- what is done to a session ------------------------------------------------------------------


async def _ask_trust(session: Engine, _argument: str, say: Say) -> None:
    """Ask again about what the folder brings along."""
    if not await session.trust.ask_again():
        say("trust.nothing")


async def _retry_request(session: Engine, _argument: str, say: Say) -> None:
    if not await session.retry():
        say("shell.nothing_to_retry")


def _grant_loops(session: Engine, _argument: str, say: Say) -> None:
    """Let the attempt that runs go on for some loops more."""
    state = session.store.state
    session.pace.extend_limit()
    pace = running_pace(state)
    say("pace.extended", count=MORE_LOOPS, limit=pace.limit.max_loops if pace is not None else 0)


def _choose_profile(session: Engine, argument: str, say: Say) -> None:
    """Set the kind of request, one of the choices, or leave it to the AI."""
    if argument == AUTO:
        session.pace.choose_profile(None)
        say("profile.said_auto")
    else:
        session.pace.choose_profile(TaskProfile(argument.upper()))
        say("profile.said", profile=LocalizedText(key=f"choice.profile.{argument}"))


async def _compact_conversation(session: Engine, argument: str, say: Say) -> None:
    """Shorten the conversation, with a hint of what matters; ``undo`` takes it back."""
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
    """Take the newest compaction back; only where it is the one that is meant, if one is."""
    problem, figures = await session.context.undo_compaction(compaction_id)
    if problem:
        say(f"compaction.no_undo.{problem}", stays=True, **figures)
    else:
        say("compaction.undone")


async def _undo_changes(session: Engine, argument: str, _say: Say) -> None:
    """Take back what was allowed last."""
    word = argument.lower()
    await session.undo(anyway=word == ANYWAY, one=word == ONE, ignored=word == IGNORED)


async def _redo_changes(session: Engine, argument: str, _say: Say) -> None:
    """Make again what was undone last, or all of it."""
    word = argument.lower()
    await session.redo(anyway=word == ANYWAY, one=word == ONE, whole=word == ALL)


def rename(session: Engine, argument: str, say: Say) -> None:
    """Name the session; an empty name is none."""
    name = session.title.rename_session(argument)
    say("sessions.renamed" if name else "sessions.unnamed", name=name)


def add_denial(session: Engine, argument: str, say: Say) -> None:
    """Forbid the words behind ``deny`` for this session."""
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
    """One thing that a user can do. ``name`` is what stands behind the slash, empty for what has
    a key only.

    Without an argument, ``action`` of the app is run, else ``act`` on the session. With one,
    ``act`` where there is one, else ``action`` with the argument.
    """

    name: str
    action: str = ""
    act: Act | None = None
    takes: Takes = ""  # what its argument chooses from, or any text
    bare: bool = False  # acts without one, too: nobody is asked to choose
    with_choice: str = ""  # the action that an argument has, where it is another one
    when: When = in_session
    early: bool = False  # also while the session is on its way
    reads: bool = False  # changes nothing of the session: a replay allows it
    keys: tuple[str, ...] = ()  # Textual's names, wherever the focus is
    label: str = ""  # the keys as they are printed
    help: str = ""  # key of the words that say what the keys do
    also: tuple[str, ...] = ()  # what other programs call it: typed, it is the same

    @property
    def text(self) -> str:
        """Key of the words that say what the command does."""
        return f"commands.{self.name}"

    def acts_with(self, argument: str) -> bool:
        """Whether it acts on the session, without anything of the screen."""
        return self.act is not None and bool(argument or not self.action)

    def problem(self, argument: str, state: AgentState | None) -> LocalizedText | None:
        """The obstacle now, in words; their key is empty where nothing is said."""
        if (key := self.when(state)) is not None:
            return LocalizedText(key=key)
        values = CHOICES.get(self.takes, ())
        if argument and values and argument.lower() not in values:
            params = {"given": argument, "choices": ", ".join(values)}
            return LocalizedText(key="shell.no_choice", params=params)
        return None


def _make_key(action: str, label: str, help: str, *keys: str) -> Command:
    return Command("", action, when=always, reads=True, keys=keys, label=label, help=help)


def _open_pane(name: str, number: int = 0, takes: Takes = "") -> Command:
    """The command that opens a pane, and with a ``number`` the keys Alt+number and the function key
    behind it. With a choice it does what the app does with that.
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
    Command("export", "export", takes="text", when=always),
    Command("stats", "stats", when=always, also=("cost", "usage")),
    Command("mcp", "page('servers')", reads=True),
    Command("ps", "page('processes')", reads=True, also=("bashes",)),
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
#: Those that can be typed, in the order of the palette.
COMMANDS: Final = tuple(command for command in USER_CAN if command.name)
_BY_NAME: Final = {name: command for command in COMMANDS for name in (command.name, *command.also)}

#: A message that begins so is a command; ``/etc/hosts is wrong`` is a message. An input method
#: may have written it in full width.
_TYPED: Final = re.compile(r"[/／]([^\W\d_][^\s/]*)(?:\s+(.*))?", re.DOTALL)

_STOPS: Final = ".:,;!?…。、，：；！？"  # what people write behind a name

#: Commands of other programs that are none here, for each of which the catalogue has an answer.
ELSEWHERE: Final = frozenset(
    {"add-dir", "agents", "bug", "hooks", "ide", "init", "logout", "mention", "output-style"}
    | {"plugin", "pr-comments", "review", "statusline", "terminal-setup", "vim"}
)

#: What people write alone to leave a program.
_LEAVES: Final = frozenset({"exit", "quit", ":q", ":q!", ":wq"})


class Invocation(NamedTuple):
    """A typed command; ``command`` is None where the name is none of ours."""

    name: str
    command: Command | None
    argument: str


def parse_command(text: str) -> Invocation | None:
    """Read a composer's text as a command; None when it is a message."""
    match = _TYPED.fullmatch(text.strip())
    if match is None:
        return None
    name, argument = half_width(match.group(1)), (match.group(2) or "").strip()
    command = _BY_NAME.get(name.lower())
    is_path = "." in name.rstrip(_STOPS) or os.path.exists(f"/{name}")
    if command is None and is_path and ":" not in name:  # with a colon it is a server's prompt
        return None
    if command is not None and command.takes in CHOICES:
        argument = half_width(argument)
    return Invocation(name, command, argument)


def describe_unknown(name: str) -> LocalizedText:
    """Which command of ours does what was meant by a name that is none of them."""
    plain = name.lower().rstrip(_STOPS)
    if plain in ELSEWHERE:
        return LocalizedText(key=f"elsewhere.{plain}")
    near = get_close_matches(plain, _BY_NAME, n=1)
    if not near:
        return LocalizedText(key="shell.no_command", params={"name": name})
    return LocalizedText(key="shell.nearest_command", params={"name": name, "near": near[0]})


def meant_by(text: str) -> tuple[str, str] | None:
    """The command that a message was meant for, and the notice that says so; None for a message.

    ``exit`` and the like alone, and one line that begins as a note does elsewhere: ``# ``.
    """
    text = text.strip()
    if text.lower() in _LEAVES:
        return "/quit", "shell.meant_quit"
    if re.fullmatch(r"[#＃]\s+\S.*", text):
        return f"/remember {text[1:].strip()}", "shell.meant_note"
    return None


def find_by_prefix(prefix: str) -> tuple[tuple[str, Command], ...]:
    """Return the commands with a name that begins with the prefix, each with that name: the one
    of exactly this name first, then in the order of the palette, then those of which only an
    alias begins so.
    """
    prefix = prefix.lower()
    named = [(name, c) for c in COMMANDS for name in (c.name, *c.also) if name.startswith(prefix)]
    named.sort(key=lambda found: (found[0] != prefix, found[0] != found[1].name))
    first: dict[str, tuple[str, Command]] = {}
    for name, command in named:
        first.setdefault(command.name, (name, command))
    return tuple(first.values())
