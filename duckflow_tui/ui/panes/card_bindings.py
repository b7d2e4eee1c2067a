"""Which keys a card has, and which of its options each takes."""

from __future__ import annotations

from typing import Final, cast

from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer

from duckflow_tui.state.gates import (
    ACCEPT,
    EDIT_PLAN,
    GO_ON,
    REJECT,
    RETRY,
    RUN_ALL,
    RUN_STEPS,
    SUGGESTED,
    Card,
    CardOption,
)
from duckflow_tui.ui.bindings import keys_of

#: Keys that take an option of some card.
LETTERS: Final = frozenset(
    k for key in keys_of("card", "consultation") if "option" in key.action for k in key.keys
)
#: Answers that let something begin: what was not on screen is shown first (R14).
LETS_BEGIN: Final = frozenset(
    option.action for option in (RUN_ALL, RUN_STEPS, ACCEPT, GO_ON, SUGGESTED)
)
NEXT: Final = "y"  # shows what was not on screen, on every card
REFUSES: Final = "n"  # on every card

_MORE: Final = "plus"  # a second key for more loops, wherever those are offered
_MAY_BE_EMPTY: Final = frozenset({REJECT.action, RETRY.action})


def card_bindings() -> list[BindingType]:
    """The keys of all cards, and those that scroll."""
    found: list[BindingType] = [Binding(k, f"option('{k}')", show=False) for k in sorted(LETTERS)]
    for key in keys_of("consultation"):
        if key.action == "walk":
            found += [Binding(k, f"walk('{k}')", show=False) for k in key.keys]
        elif key.action != "option":
            found.append(Binding(",".join(key.keys), key.action, show=False))
    walked = {k for key in keys_of("consultation") for k in key.keys}
    for binding in cast("list[Binding]", ScrollableContainer.BINDINGS):
        if binding.key not in walked:
            found.append(Binding(binding.key, f"scroll_rows('{binding.action}')", show=False))
    return found


def option_at(card: Card, key: str) -> CardOption | None:
    """The option that the key takes on this card."""
    if key == _MORE:
        return next((o for o in card.options if o.action == "more_loops"), None)
    return next((o for o in card.options if o.key == key), None)


def answers_alone(card: Card, key: str) -> bool:
    """Whether the key alone answers the card, and not with no."""
    option = option_at(card, key)
    opens = option is None or option.takes_text or option.action == EDIT_PLAN.action
    return not opens and key != REFUSES


def wants_words(option: CardOption) -> bool:
    """Whether the option says nothing without the user's words."""
    return option.takes_text and option.action not in _MAY_BE_EMPTY
