"""Kinds of keys."""

from __future__ import annotations

import pytest
from textual import events

from duckflow_tui.ui.panes.key_guard import is_for_composer, is_text


def key(name: str) -> events.Key:
    return events.Key(name, name if len(name) == 1 else None)


@pytest.mark.parametrize(
    ("event", "written", "composed"),
    [
        (key("a"), True, True),
        (events.Key("space", " "), True, True),
        (events.Paste("x"), True, True),
        (key("enter"), False, True),
        (key("backspace"), False, True),
        (key("up"), False, False),
        (events.Key("ctrl+a", "\x01"), False, False),
    ],
)
def test_characters_write_and_two_keys_belong_to_writing(
    event: events.Key | events.Paste, written: bool, composed: bool
) -> None:
    assert (is_text(event), is_for_composer(event)) == (written, composed)
