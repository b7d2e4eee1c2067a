"""The keys of every place on the screen, as one table for the footer, F1, the manual and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from duckflow_tui.commands import PANES, USER_CAN

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
    "vitals",
    "goal",
    "pane",
    "list",
    "form",
    "replay",
    "compaction",
    "result",
    "welcome",
    "models",
    "manual",
]


@dataclass(frozen=True, slots=True)
class Key:
    """A key's effect in one place. ``keys`` are Textual's names, ``label`` is the printed one."""

    surface: Surface
    keys: tuple[str, ...]
    label: str
    #: Name of the action method on the widget or app, without ``action_``; of two, parted by ``|``,
    #: the first belongs to the first half of the keys.
    action: str
    text: str  # key of the catalogue: "keys.<…>"
    acts: bool = False  # on the session, or it writes: a replay refuses it

    def list_actions(self) -> list[tuple[str, str]]:
        """Return a pair of key and action for each of the keys."""
        actions = self.action.split("|")
        share = len(self.keys) // len(actions)
        return [(name, actions[at // share]) for at, name in enumerate(self.keys)]


_PANES: Final = tuple(can for can in USER_CAN if can.name in PANES and can.keys)

KEYS: Final[tuple[Key, ...]] = (
    Key("composer", ("enter",), "Enter", "send", "keys.send", acts=True),
    Key(
        "composer",
        ("ctrl+j", "alt+enter", "shift+enter"),
        "Ctrl+J · Alt+Enter · Shift+Enter · \\ Enter",
        "newline",
        "keys.newline",
        acts=True,
    ),
    Key("busy", ("enter",), "Enter", "send", "keys.talk_now"),
    Key("busy", ("tab",), "Tab", "queue", "keys.queue"),
    Key("empty", ("enter",), "Enter", "to_open_question", "keys.to_open_question"),
    Key(
        "empty",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
        "1 … 9",
        "take_offer",
        "keys.start_take",
    ),
    Key("empty", ("end",), "End", "chat_end", "keys.chat_end"),
    Key("completion", ("tab", "enter"), "Tab · Enter", "take_completion", "keys.take_completion"),
    Key("composer", ("up", "down"), "↑ ↓", "history", "keys.history"),
    Key("composer", ("ctrl+r",), "Ctrl+R", "search_history", "keys.search_history", acts=True),
    Key("composer", ("@",), "@", "pick_file", "keys.pick_file"),
    Key("composer", ("/",), "/", "commands", "keys.commands"),
    Key("composer", ("!", "!!"), "! · !!", "own_command", "keys.own_command"),
    Key("composer", ("ctrl+g",), "Ctrl+G", "external_editor", "keys.external_editor", acts=True),
    Key(
        "anywhere",
        tuple(name for can in _PANES for name in can.keys),
        "Alt+1 … Alt+4 · F2 … F5",
        "|".join(can.action for can in _PANES),
        "keys.panes",
    ),
    *(
        Key("anywhere", can.keys, can.label, can.action, can.help)
        for can in USER_CAN
        if can.keys and can not in _PANES
    ),
    Key("vitals", ("enter",), "Enter", "explain", "keys.explain"),
    Key("pane", ("z",), "z", "screen.zoom", "keys.zoom"),
    Key("goal", ("enter",), "Enter", "app.page('requirements')", "keys.open_ledger"),
    Key("gate", ("y",), "y", "once", "keys.gate_once", acts=True),
    Key("gate", ("s",), "s s", "session", "keys.gate_session", acts=True),
    Key("gate", ("t",), "t t", "step", "keys.gate_step", acts=True),
    Key("gate", ("x",), "x x", "only", "keys.gate_only", acts=True),
    Key("gate", ("a",), "a a", "routine", "keys.gate_routine", acts=True),
    Key("gate", ("p",), "p p", "project", "keys.gate_project", acts=True),
    Key("gate", ("n",), "n", "reject", "keys.gate_reject", acts=True),
    Key("gate", ("e",), "e", "edit", "keys.gate_edit", acts=True),
    Key(
        "gate",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9"),
        "1 … 9",
        "alternative",
        "keys.gate_alternative",
        acts=True,
    ),
    Key("gate", ("full_stop", "i"), ". · i", "details", "keys.gate_details", acts=True),
    Key("gate", ("z",), "z", "whole_diff", "keys.gate_whole_diff", acts=True),
    Key(
        "diff",
        ("right_square_bracket", "left_square_bracket"),
        "] [",
        "next_hunk|previous_hunk",
        "keys.to_hunk",
    ),
    Key("diff", ("down", "j", "up", "k"), "↓ ↑ · j k", "line(1)|line(-1)", "keys.to_line"),
    Key("diff", ("c",), "c", "remark", "keys.remark"),
    Key("diff", ("space",), "space", "toggle_hunk", "keys.toggle_hunk", acts=True),
    Key("diff", ("v",), "v", "toggle_split", "keys.toggle_split"),
    Key("diff", ("w",), "w", "toggle_wrap", "keys.toggle_wrap"),
    Key(
        "card",
        ("y", "o", "r", "d", "k", "1", "m", "e", "l", "n"),
        "y o r d k 1 m e l n",
        "option",
        "keys.card_option",
        acts=True,
    ),
    Key("card", ("c",), "c", "remark", "keys.card_remark", acts=True),
    Key(
        "consultation",
        ("1", "2", "3", "4", "5", "6", "7", "8", "9", "plus", "m"),
        "1 … 9 · + · m",
        "option",
        "keys.consult_choose",
        acts=True,
    ),
    Key("consultation", ("up", "down"), "↑ ↓", "walk", "keys.consult_walk"),
    Key("consultation", ("enter",), "Enter", "go_to", "keys.consult_go_to"),
    Key("consultation", ("escape",), "Esc", "escape", "keys.consult_leave"),
    Key(
        "plan",
        ("up", "down", "pageup", "pagedown", "home", "end"),
        "↑ ↓",
        "walk('up')|walk('down')|walk('pageup')|walk('pagedown')|walk('home')|walk('end')",
        "keys.plan_walk",
    ),
    Key(
        "plan",
        ("left", "right", "space"),
        "← → · space",
        "fold_step('left')|fold_step('right')|fold_step('space')",
        "keys.plan_fold",
    ),
    Key("plan", ("enter",), "Enter", "go_to", "keys.plan_go_to"),
    Key("plan", ("e",), "e", "edit_step", "keys.plan_edit", acts=True),
    Key("plan", ("a",), "a", "add_step", "keys.plan_add", acts=True),
    Key("plan", ("d",), "d d", "drop_step", "keys.plan_drop", acts=True),
    Key(
        "plan",
        ("J", "shift+j", "K", "shift+k"),
        "J K",
        "move_step(1)|move_step(-1)",
        "keys.plan_move",
        acts=True,
    ),
    Key("plan", ("p",), "p", "break_before", "keys.plan_break", acts=True),
    Key("plan", ("r",), "r", "retry_step", "keys.plan_retry", acts=True),
    Key("plan", ("s",), "s", "skip_step", "keys.plan_skip", acts=True),
    Key("list", ("up", "down", "pageup", "pagedown"), "↑ ↓ PgUp PgDn", "walk", "keys.list_walk"),
    Key("list", ("enter",), "Enter", "run_main", "keys.list_main"),
    Key("list", ("full_stop",), ".", "open_menu", "keys.list_menu"),
    Key("list", ("slash",), "/", "open_filter", "keys.list_filter"),
    Key("list", ("tab", "right", "left"), "Tab · ← →", "turn_tab", "keys.list_tab"),
    Key("list", ("escape",), "Esc", "leave", "keys.close"),
    Key("form", ("ctrl+s",), "Ctrl+S", "apply", "keys.form_apply"),
    Key("form", ("tab",), "Tab", "next_field", "keys.form_next"),
    Key("form", ("escape",), "Esc", "escape", "keys.form_cancel"),
    Key(
        "replay",
        ("space", "plus", "minus"),
        "space · + −",
        "play|speed(1)|speed(-1)",
        "keys.replay_play",
    ),
    Key(
        "replay",
        ("left", "right", "home", "end"),
        "← → · Home End",
        "step(-1)|step(1)|to_edge(-1)|to_edge(1)",
        "keys.replay_step",
    ),
    Key("replay", ("p", "n"), "p n", "jump(-1)|jump(1)", "keys.replay_jump"),
    Key("replay", ("q",), "q · Esc Esc", "app.quit_now", "keys.replay_quit"),
    Key("welcome", ("enter",), "Enter · 1 … 9", "take", "keys.connect_take"),
    Key("welcome", ("tab",), "Tab", "address", "keys.connect_address"),
    Key("welcome", ("0",), "0", "pick('0')", "keys.connect_demo"),
    Key("models", ("enter",), "Enter", "take", "keys.models_take"),
    Key("models", ("tab",), "Tab", "next_role", "keys.models_role"),
    Key("models", ("ctrl+l",), "Ctrl+L", "favour", "keys.models_favour"),
    Key("models", ("escape",), "Esc", "leave", "keys.close"),
    Key("manual", ("left", "right"), "← →", "turn", "keys.manual_turn"),
    Key("manual", ("slash",), "/", "open_filter", "keys.list_filter"),
    Key("compaction", ("u",), "u", "undo_compaction", "keys.undo_compaction"),
    Key("result", ("o",), "o", "open_whole", "keys.open_whole"),
)


def keys_of(*surfaces: Surface) -> tuple[Key, ...]:
    """Return the keys of these places, in the table's order."""
    return tuple(key for key in KEYS if key.surface in surfaces)


#: Terminals that tell Shift+Enter from Enter.
_TELL_SHIFT_ENTER: Final = ("kitty", "ghostty", "wezterm", "foot", "alacritty", "iterm")


def tells_shift_enter(environ: Mapping[str, str]) -> bool:
    """Whether the terminal is known to send Shift+Enter as something other than Enter."""
    known = f"{environ.get('TERM', '')} {environ.get('TERM_PROGRAM', '')}".lower()
    return any(name in known for name in _TELL_SHIFT_ENTER)
