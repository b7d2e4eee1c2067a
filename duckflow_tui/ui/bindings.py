"""The keys of every place on the screen: footer, F1, the README's table and tests read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from duckflow_tui.commands import USER_CAN

Surface = Literal[
    "composer",
    "busy",
    "empty",
    "completion",
    "anywhere",
    "gate",
    "diff",
    "card",
    "consultation",
    "plan",
    "plans",
    "step_form",
    "vitals",
    "goal",
    "working",
    "working_form",
    "ledger",
    "ledger_form",
    "editing",
    "replay",
    "waiting",
    "processes",
    "servers",
    "memory",
    "settings",
    "sessions",
    "context",
    "sent",
    "compaction",
    "result",
    "rewind",
    "health",
]


@dataclass(frozen=True, slots=True)
class Key:
    """What a key does on a surface. ``keys`` are Textual names, ``label`` is what is printed."""

    surface: Surface
    keys: tuple[str, ...]
    label: str
    action: str  # name of the action method on the widget or app, without ``action_``
    text: str  # key of the catalogue: "keys.<…>"


KEYS: Final[tuple[Key, ...]] = (
    Key("composer", ("enter",), "Enter", "send", "keys.send"),
    Key(
        "composer",
        ("ctrl+j", "alt+enter", "shift+enter"),
        "Ctrl+J · Alt+Enter · Shift+Enter · \\ Enter",
        "newline",
        "keys.newline",
    ),
    Key("busy", ("enter",), "Enter", "send", "keys.talk_now"),
    Key("busy", ("tab",), "Tab", "queue", "keys.queue"),
    Key("empty", ("enter",), "Enter", "to_open_question", "keys.to_open_question"),
    Key("completion", ("tab",), "Tab", "take_completion", "keys.take_completion"),
    Key("composer", ("up", "down"), "↑ ↓", "history", "keys.history"),
    Key("composer", ("ctrl+r",), "Ctrl+R", "search_history", "keys.search_history"),
    Key("composer", ("@",), "@", "pick_file", "keys.pick_file"),
    Key("composer", ("/",), "/", "commands", "keys.commands"),
    Key("composer", ("!",), "!", "own_command", "keys.own_command"),
    Key("composer", ("ctrl+g",), "Ctrl+G", "external_editor", "keys.external_editor"),
    *(Key("anywhere", can.keys, can.label, can.action, can.help) for can in USER_CAN if can.keys),
    Key("vitals", ("enter",), "Enter", "explain", "keys.explain"),
    Key("vitals", ("up", "down"), "↑ ↓", "walk", "keys.vitals_walk"),
    Key("vitals", ("r",), "r", "app.page('requirements')", "keys.open_ledger"),
    Key("vitals", ("m",), "m", "app.page('working')", "keys.open_working"),
    Key("goal", ("enter",), "Enter", "app.page('requirements')", "keys.open_ledger"),
    Key("goal", ("m",), "m", "app.page('working')", "keys.open_working"),
    Key("working", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("working", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("working", ("e",), "e", "edit", "keys.working_edit"),
    Key("working", ("enter",), "Enter", "go_to", "keys.plan_go_to"),
    Key("working", ("escape",), "Esc", "leave", "keys.close"),
    Key("working_form", ("ctrl+s",), "Ctrl+S", "apply", "keys.form_apply"),
    Key("working_form", ("escape",), "Esc", "escape", "keys.form_cancel"),
    Key("ledger", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("ledger", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("ledger", ("e",), "e", "edit('words')", "keys.ledger_edit"),
    Key("ledger", ("p",), "p", "next_priority", "keys.ledger_priority"),
    Key("ledger", ("c",), "c", "edit('check')", "keys.ledger_check"),
    Key("ledger", ("a",), "a", "add", "keys.ledger_add"),
    Key("ledger", ("w",), "w", "waive", "keys.ledger_waive"),
    Key(
        "ledger",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
        "1 … 9",
        "to_evidence",
        "keys.ledger_evidence",
    ),
    Key("ledger", ("escape",), "Esc", "leave", "keys.close"),
    Key("ledger_form", ("ctrl+s",), "Ctrl+S", "apply", "keys.form_apply"),
    Key("ledger_form", ("escape",), "Esc", "escape", "keys.form_cancel"),
    Key("gate", ("y",), "y", "once", "keys.gate_once"),
    Key("gate", ("s",), "s", "session", "keys.gate_session"),
    Key("gate", ("t",), "t", "step", "keys.gate_step"),
    Key("gate", ("n",), "n", "reject", "keys.gate_reject"),
    Key("gate", ("e",), "e", "edit", "keys.gate_edit"),
    Key(
        "gate",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
        "1 … 9",
        "alternative",
        "keys.gate_alternative",
    ),
    Key("diff", ("right_square_bracket",), "]", "next_hunk", "keys.next_hunk"),
    Key("diff", ("left_square_bracket",), "[", "previous_hunk", "keys.previous_hunk"),
    Key("diff", ("space",), "space", "toggle_hunk", "keys.toggle_hunk"),
    Key("diff", ("v",), "v", "toggle_split", "keys.toggle_split"),
    Key("diff", ("w",), "w", "toggle_wrap", "keys.toggle_wrap"),
    Key("card", ("y",), "y", "option('y')", "keys.card_yes"),
    Key("card", ("o",), "o", "option('o')", "keys.card_steps"),
    Key("card", ("r",), "r", "option('r')", "keys.card_retry"),
    Key("card", ("k",), "k", "option('k')", "keys.card_skip"),
    Key("card", ("1",), "1", "option('1')", "keys.card_suggested"),
    Key("card", ("m",), "m", "option('m')", "keys.card_tell"),
    Key("card", ("e",), "e", "option('e')", "keys.card_edit"),
    Key("card", ("n",), "n", "option('n')", "keys.card_no"),
    Key(
        "consultation",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
        "1 … 9",
        "option",
        "keys.consult_choose",
    ),
    Key("consultation", ("plus",), "+", "option", "keys.consult_more"),
    Key("consultation", ("m",), "m", "option", "keys.consult_tell"),
    Key("consultation", ("up", "down"), "↑ ↓", "walk", "keys.consult_walk"),
    Key("consultation", ("enter",), "Enter", "go_to", "keys.consult_go_to"),
    Key("consultation", ("escape",), "Esc", "escape", "keys.consult_leave"),
    Key(
        "plan",
        ("up", "down", "pageup", "pagedown", "home", "end"),
        "↑ ↓",
        "walk",
        "keys.plan_walk",
    ),
    Key("plan", ("left", "right", "space"), "← → · space", "fold_step", "keys.plan_fold"),
    Key("plan", ("enter",), "Enter", "go_to", "keys.plan_go_to"),
    Key("plan", ("e",), "e", "edit_step", "keys.plan_edit"),
    Key("plan", ("a",), "a", "add_step", "keys.plan_add"),
    Key("plan", ("d",), "d", "drop_step", "keys.plan_drop"),
    Key("plan", ("J", "shift+j"), "J", "move_step(1)", "keys.plan_move_down"),
    Key("plan", ("K", "shift+k"), "K", "move_step(-1)", "keys.plan_move_up"),
    Key("plan", ("p",), "p", "break_before", "keys.plan_break"),
    Key("plan", ("r",), "r", "retry_step", "keys.plan_retry"),
    Key("plan", ("s",), "s", "skip_step", "keys.plan_skip"),
    Key("plans", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("plans", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("plans", ("enter",), "Enter", "activate", "keys.plans_activate"),
    Key("plans", ("c",), "c", "close", "keys.plans_close"),
    Key("plans", ("d",), "d d", "delete", "keys.plans_delete"),
    Key("plans", ("escape",), "Esc", "leave", "keys.close"),
    Key("step_form", ("ctrl+s",), "Ctrl+S", "apply", "keys.form_apply"),
    Key("step_form", ("escape",), "Esc", "escape", "keys.form_cancel"),
    Key("editing", ("ctrl+s",), "Ctrl+S", "apply", "gate.edit_apply"),
    Key("editing", ("escape",), "Esc", "escape", "gate.edit_cancel"),
    Key("replay", ("space",), "space", "play", "keys.replay_play"),
    Key("replay", ("left", "right"), "← →", "step", "keys.replay_step"),
    Key("replay", ("n",), "n", "jump(1)", "keys.replay_next"),
    Key("replay", ("p",), "p", "jump(-1)", "keys.replay_previous"),
    Key("replay", ("plus", "minus"), "+ −", "speed", "keys.replay_speed"),
    Key("replay", ("home", "end"), "Home End", "to_edge", "keys.replay_edge"),
    Key("replay", ("q",), "q · Esc Esc", "quit", "keys.replay_quit"),
    Key("waiting", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("waiting", ("enter",), "Enter", "edit", "keys.waiting_edit"),
    Key("waiting", ("J", "shift+j"), "J", "move(1)", "keys.waiting_move_down"),
    Key("waiting", ("K", "shift+k"), "K", "move(-1)", "keys.waiting_move_up"),
    Key("waiting", ("t",), "t", "take_back", "keys.waiting_back"),
    Key("waiting", ("escape",), "Esc", "leave", "keys.close"),
    Key("processes", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("processes", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("processes", ("e",), "e", "end", "keys.process_end"),
    Key("processes", ("escape",), "Esc", "leave", "keys.close"),
    Key("servers", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("servers", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("servers", ("s",), "s", "want('start')", "keys.server_start"),
    Key("servers", ("x",), "x", "want('stop')", "keys.server_stop"),
    Key("servers", ("r",), "r", "want('restart')", "keys.server_restart"),
    Key("servers", ("escape",), "Esc", "leave", "keys.close"),
    Key("memory", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("memory", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("memory", ("d",), "d d", "delete", "keys.memory_delete"),
    Key("memory", ("e",), "e", "open_file", "keys.memory_edit"),
    Key("memory", ("escape",), "Esc", "leave", "keys.close"),
    Key("settings", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("settings", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("settings", ("e",), "e", "open_file", "keys.settings_open"),
    Key("settings", ("escape",), "Esc", "leave", "keys.close"),
    Key("sessions", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("sessions", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("sessions", ("enter",), "Enter", "open", "keys.sessions_open"),
    Key("sessions", ("slash",), "/", "search", "keys.sessions_search"),
    Key("sessions", ("r",), "r", "rename", "keys.sessions_rename"),
    Key("sessions", ("p",), "p", "pin", "keys.sessions_pin"),
    Key("sessions", ("x",), "x", "export", "keys.sessions_export"),
    Key("sessions", ("w",), "w", "watch", "keys.sessions_watch"),
    Key("sessions", ("d",), "d", "delete", "keys.sessions_delete"),
    Key("sessions", ("t",), "t", "trash", "keys.sessions_trash"),
    Key("sessions", ("u",), "u", "restore", "keys.sessions_restore"),
    Key("sessions", ("a",), "a", "everywhere", "keys.sessions_all"),
    Key("sessions", ("escape",), "Esc", "leave", "keys.close"),
    Key("context", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("context", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("context", ("enter",), "Enter", "open", "keys.context_open"),
    Key("context", ("escape",), "Esc", "leave", "keys.close"),
    Key("sent", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("sent", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("sent", ("escape",), "Esc", "leave", "keys.close"),
    Key("rewind", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("rewind", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("rewind", ("enter",), "Enter", "back", "keys.rewind_back"),
    Key("rewind", ("b",), "b b", "back_with_files", "keys.rewind_files"),
    Key("rewind", ("f",), "f", "fork", "keys.rewind_fork"),
    Key("rewind", ("escape",), "Esc", "leave", "keys.close"),
    Key("health", ("up", "down"), "↑ ↓", "walk", "keys.walk"),
    Key("health", ("pageup", "pagedown"), "PgUp PgDn", "scroll_rows", "keys.scroll_rows"),
    Key("health", ("escape",), "Esc", "leave", "keys.close"),
    Key("compaction", ("u",), "u", "undo_compaction", "keys.undo_compaction"),
    Key("result", ("o",), "o", "open_whole", "keys.open_whole"),
)


def keys_of(*surfaces: Surface) -> tuple[Key, ...]:
    """The keys of these surfaces, in the registry's order."""
    return tuple(key for key in KEYS if key.surface in surfaces)


#: Terminals that tell Shift+Enter from Enter; for others the key is not advertised.
_TELL_SHIFT_ENTER: Final = ("kitty", "ghostty", "wezterm", "foot", "alacritty", "iterm")


def tells_shift_enter(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is one that is known to tell Shift+Enter from Enter."""
    known = f"{environ.get('TERM', '')} {environ.get('TERM_PROGRAM', '')}".lower()
    return any(name in known for name in _TELL_SHIFT_ENTER)


def label_here(key: Key, environ: Mapping[str, str]) -> str:
    """The label without keys that this terminal cannot send."""
    if "shift+enter" in key.keys and not tells_shift_enter(environ):
        return key.label.replace(" · Shift+Enter", "")
    return key.label
