"""The reply is read out of the JSON while it arrives."""

from __future__ import annotations

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow_tui.llm.reply_json import ReplyPreview

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def shown(pieces: list[str]) -> str:
    out: list[str] = []
    preview = ReplyPreview(out.append)
    for piece in pieces:
        preview.feed(piece)
    return "".join(out)


def split(text: str, cuts: list[int]) -> list[str]:
    places = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[a:b] for a, b in itertools.pairwise(places)]


@settings(max_examples=300, deadline=None)
@given(
    before=st.dictionaries(TEXT.filter(lambda key: key != "reply"), VALUE, max_size=3),
    reply=TEXT,
    after=st.dictionaries(TEXT.filter(lambda key: key != "reply"), VALUE, max_size=3),
    cuts=st.lists(st.integers(0, 10_000), max_size=12),
    ascii_only=st.booleans(),
)
def test_any_object_in_any_pieces_shows_exactly_its_reply(
    before: dict[str, object],
    reply: str,
    after: dict[str, object],
    cuts: list[int],
    ascii_only: bool,
) -> None:
    rest = {key: value for key, value in after.items() if key not in before}
    text = json.dumps({**before, "reply": reply, **rest}, ensure_ascii=ascii_only)
    assert shown(split(text, cuts)) == reply


def test_each_piece_is_shown_when_it_comes() -> None:
    out: list[str] = []
    preview = ReplyPreview(out.append)
    for piece in (
        '{"rationale": "r", "rep',
        'ly": "He',
        "llo \\",
        "n\\u30",
        "2f\\ud83d",
        '\\ude00"',
    ):
        preview.feed(piece)
    assert out == ["He", "llo ", "\n", "\u302f", "\U0001f600"]


def test_a_reply_of_another_level_is_not_shown() -> None:
    assert shown(['{"state_delta": {"reply": "no"}, "actions": [{"reply": "no"}]}']) == ""
    assert shown(['{"x": "reply", "y": "no"}']) == ""


def test_broken_halves_of_a_pair_become_replacement_signs() -> None:
    assert shown(['{"reply": "a\\ud83d\\ud83db\\ude00"}']) == "a\ufffd\ufffdb\ufffd"
    assert shown(['{"reply": "a\\ud83d"}']) == "a\ufffd"
