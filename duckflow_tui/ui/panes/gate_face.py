"""The frame of a gate in words: its title, its subtitle and what its keys do now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.text import Text

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.gates import Gate
from duckflow_tui.state.operations import Risk
from duckflow_tui.ui.bindings import keys_of
from duckflow_tui.ui.palette import Palette
from duckflow_tui.ui.panes.gate_keys import KeyHint
from duckflow_tui.ui.panes.gate_rows import subject, verb
from duckflow_tui.ui.panes.strips import fit
from duckflow_tui.words.catalogue import Catalogue

_LETTERS: Final = {key.action: key.label for key in keys_of("gate")}


@dataclass(frozen=True, slots=True)
class Title:
    """The title as it fits, and whether something of its subject does not."""

    text: Text
    cut: bool


def title_of(
    gate: Gate, words: Catalogue, palette: Palette, room: int, *, step: str, waiting: int
) -> Title:
    """``Approve  edit src/shop/pricing.py  step 2  1 of 3`` in at most ``room`` cells."""
    text = Text(words("gate.title"), style=f"bold {palette.accent}", no_wrap=True)
    rest = f"  {step}" if step else ""
    if waiting > 1:
        rest += f"  {words('gate.waiting', number=1, total=waiting)}"
    several = len(gate.previews) > 1
    what = words("gate.several", count=len(gate.previews)) if several else subject(gate)
    head = f"  {verb(gate, words)} "
    shown = fit(what, max(room - Text(f"{text.plain}{head}{rest}").cell_len, 0), keep="end")
    text.append(f"{head}{shown}")
    text.append(rest, style=f"not bold {palette.quiet}")
    return Title(text, shown != what)


def subtitle_of(gate: Gate, words: Catalogue, palette: Palette, hint: str, room: int) -> Text:
    """``low risk · Enter to decide`` in at most ``room`` cells, the hint before the risk.

    The risk is a word before it is a colour.
    """
    risk = gate.impact.risk
    whole = f"{words(f'gate.risk.{risk}')} · {hint}"
    if Text(whole).cell_len > room:
        return Text(fit(hint, room), style=palette.accent, no_wrap=True)
    style = palette.bad if risk.rank >= Risk.HIGH.rank else palette.accent
    text = Text(words(f"gate.risk.{risk}"), style=style, no_wrap=True)
    return text.append(f" · {hint}", style=palette.accent)


def key_hints(gate: Gate, words: Catalogue, *, unseen: int, width: int) -> tuple[KeyHint, ...]:
    """The letters that this gate answers to. Those that consent only show the next page while
    something was not on screen, and say so.
    """
    if unseen:
        pages = [_LETTERS["once"]]
        pages += [_LETTERS["session"]] if gate.can_grant_session else []
        pages += [_LETTERS["step"]] if gate.can_grant_step else []
        hints = [KeyHint(" ".join(pages), words("gate.key.next", count=unseen))]
    else:
        hints = [KeyHint(_LETTERS["once"], words("gate.key.once"))]
    if gate.can_grant_session and not unseen:
        hints.append(
            KeyHint(
                _LETTERS["session"],
                words("gate.key.session"),
                visible_line(gate.grant_pattern),
            )
        )
    if gate.can_grant_step and not unseen:
        hints.append(KeyHint(_LETTERS["step"], words("gate.key.step")))
    hints.append(KeyHint(_LETTERS["reject"], words("gate.key.reject")))
    if gate.can_edit:
        hints.append(KeyHint(_LETTERS["edit"], words("gate.key.edit")))
    if sum(hint.cells + 2 for hint in hints) - 2 > width:
        # What says the most comes last where one row does not hold them all.
        hints.sort(key=lambda hint: hint.letter == _LETTERS["session"])
    return tuple(hints)
