"""Kinds of keys."""

from __future__ import annotations

import pytest
from textual import events

from duckflow_tui.ui.panes.key_guard import copy_event, is_enter_or_backspace, is_text


def key(name: str) -> events.Key:
    return events.Key(name, name if len(name) == 1 else None)


@pytest.mark.parametrize(
    ("event", "written", "composed"),
    [
        (key("a"), True, False),
        (events.Key("space", " "), True, False),
        (events.Paste("x"), True, False),
        (key("enter"), False, True),
        (key("backspace"), False, True),
        (key("up"), False, False),
        (events.Key("ctrl+a", "\x01"), False, False),
    ],
)
def test_characters_write_and_two_keys_belong_to_writing(
    event: events.Key | events.Paste, written: bool, composed: bool
) -> None:
    assert (is_text(event), is_enter_or_backspace(event)) == (written, composed)
    again = copy_event(event)
    assert again is not event
    assert type(again) is type(event)
    if isinstance(again, events.Paste) and isinstance(event, events.Paste):
        assert again.text == event.text
    elif isinstance(again, events.Key) and isinstance(event, events.Key):
        assert (again.key, again.character) == (event.key, event.character)
