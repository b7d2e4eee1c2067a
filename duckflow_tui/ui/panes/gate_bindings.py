"""Which keys a gate has, and which of them answer."""

from __future__ import annotations

from typing import Final, cast

from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer

from duckflow_tui.state.gates import Gate
from duckflow_tui.ui.bindings import KEYS

LETTERS: Final = frozenset(k for key in KEYS if key.surface in ("gate", "diff") for k in key.keys)
#: Those that answer, or lead to an answer. To refuse is always possible.
ANSWERS: Final = frozenset(
    k for key in KEYS if key.surface == "gate" and key.action != "reject" for k in key.keys
)


def gate_bindings() -> list[BindingType]:
    """The keys of a gate and of the diff in it, and those that scroll."""
    found: list[BindingType] = []
    for key in KEYS:
        if key.action == "alternative":
            found += [Binding(k, f"alternative({k})", k, show=False) for k in key.keys]
        elif key.surface in ("gate", "diff") or key.action == "escape":
            found.append(Binding(",".join(key.keys), key.action, key.label, show=False))
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        found.append(Binding(binding.key, f"scroll_part('{binding.action}')", show=False))
    return found


def consents(key: str, gate: Gate) -> bool:
    """Whether the key alone answers this gate with something other than no."""
    match key:
        case "y":
            return True
        case "s":
            return gate.can_grant_session
        case "t":
            return gate.can_grant_step
        case _:
            return key.isdecimal() and 0 < int(key) <= len(gate.alternatives)
