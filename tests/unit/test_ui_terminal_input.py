"""The bytes of a terminal as events: cut anywhere they mean the same, and none is deadly."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strange_input import strange_bytes
from support.whole import rounds, some_of
from textual import events
from textual.message import Message

from duckflow_tui.ui.terminal_input import (
    PASTE_SILENCE,
    SEQUENCE_SILENCE,
    PasteUnfinished,
    TerminalInput,
)

#: A terminal that speaks the newer protocol, in which the Esc key is a sequence, and one of old.
KITTY: Final = b"\x1b[?29u"
ESCAPE: Final = ("escape", None)

Told = list[tuple[object, ...]]  # what tests compare of events


class Played:
    """An input in virtual time."""

    def __init__(self, before: bytes = b"") -> None:
        self.now = 1000.0
        self.input = TerminalInput()
        self.events: list[Message] = []
        self.send(before)

    def send(self, data: bytes, pause: float = 0.0) -> None:
        """Bytes, and then silence for so many seconds."""
        self.events += self.input.feed_bytes(data, self.now)
        self.pass_time(pause)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (
            left := self.input.seconds_until_tick(self.now)
        ) is not None and self.now + left <= end:
            self.now += left + 1e-6
            self.events += self.input.check_silence(self.now)
        self.now = max(end, self.now)

    @property
    def told(self) -> Told:
        return [told(event) for event in self.events]


def told(event: Message) -> tuple[object, ...]:
    match event:
        case events.Key():
            return (event.key, event.character)
        case events.Paste():
            return ("paste", event.text)
        case events.MouseEvent():
            return (type(event).__name__, event.screen_x, event.screen_y, event.button)
        case _:
            return (type(event).__name__,)


def heard(*pieces: bytes | float, before: bytes = b"") -> Told:
    """The events of pieces with pauses between them, once all has settled."""
    played = Played(before)
    for piece in pieces:
        if isinstance(piece, bytes):
            played.send(piece)
        else:
            played.pass_time(piece)
    played.pass_time(PASTE_SILENCE + SEQUENCE_SILENCE + 1)
    return played.told


def typed(text: str) -> Told:
    return [(" " if key == "space" else key, key) for key in text]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b[98;1:1u", [("b", "b")]),
        ("\x1b[98;1:2u", [("b", "b")]),
        ("\x1b[98;1:3u", []),
        ("\x1b[98u", [("b", "b")]),
        ("\x1b[98;;98u", [("b", "b")]),
        ("\x1b[97:65;2;65u", [("A", "A")]),
        ("\x1b[97;2u", [("A", "A")]),
        ("\x1b[0;;12354:12356u", [("あ", "あ"), ("い", "い")]),
        ("\x1b[113;7;64u", [("at", "@")]),
        ("\x1b[99;5u", [("ctrl+c", None)]),
        ("\x1b[99;5;99u", [("ctrl+c", None)]),
        ("\x1b[1089::99;5:1u", [("ctrl+c", None)]),
        ("\x1b[1089::99;5;1089u", [("ctrl+c", None)]),
        ("\x1b[1089:1057:99;6u", [("ctrl+shift+c", None)]),
        ("\x1b[1089::99;69u", [("ctrl+c", None)]),
        ("\x1b[1089;5u", [("ctrl+c", None)]),
        ("\x1b[1089;3u", [("alt+c", None)]),
        ("\x1b[1088;5u", [("ctrl+h", None)]),
        ("\x1b[968;5u", [("ctrl+c", None)]),
        ("\x1b[12381::99;5u", [("ctrl+c", None)]),
        ("\x1b[1089::99;1;1089u", [("с", "с")]),
        ("\x1b[27;5;1089~", [("ctrl+c", None)]),
        ("\x1b[27;6;1057~", [("ctrl+shift+c", None)]),
        ("\x1b[27;6;67~", [("ctrl+shift+c", None)]),
        ("\x1b[0;;128104:8205u", [("man", "👨"), ("zero_width_joiner", "\u200d")]),
        ("\x1b[27;2;13~", [("shift+enter", None)]),
        ("\x1b[27;2;65~", [("A", "A")]),
        ("\x1b[13;2u", [("shift+enter", None)]),
        ("\x1b[13u", [("enter", "\r")]),
        ("\x1b[27u", [ESCAPE]),
        ("\x1b[1;5C", [("ctrl+right", None)]),
        ("\x1b[1;5:2C", [("ctrl+right", None)]),
        ("\x1b[1;5:3C", []),
        ("\x1b[25~", [("f13", None)]),
        ("\x1b[99~", []),
        ("\x1b[A", [("up", None)]),
        ("\x1bOP", [("f1", None)]),
        ("\x1bO2P", [("shift+f1", None)]),
        ("\x1b[[A", [("f1", None)]),
        ("\x1b[7$", [("shift+home", None)]),
        ("\x1b1", [("alt+1", None)]),
        ("\x1bс", [("alt+c", "с")]),
        ("\x1b\x1b[A", [("escape", "\x1b"), ("up", None)]),
        ("\x1b\x03", [("escape", "\x1b"), ("ctrl+c", "\x03")]),
        ("\x00", [("ctrl+@", "\x00")]),
        ("\x9b", []),
        ("\x1b[M !!", []),
        ("\x1b[<64;3;4M", [("MouseScrollUp", 2.0, 3.0, 0)]),
        ("\x1b[<0;3;4M", [("MouseDown", 2.0, 3.0, 1)]),
        ("\x1b[<0;-3;4M", []),
        ("\x1b[<128;3;4M", []),
        ("\x1b[?62;22c", []),
        ("\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\", []),
        ("\x1b]11;rgb:1e1e/1e1e/2e2e\x07", []),
        ("\x1bP>|kitty(0.40)\x1b\\", []),
        ("\x1b_Gi=1;OK\x1b\\", []),
        ("\x1b[?997;1n", []),
        ("\x1b[12;40R", []),
        ("\x1b[200~\x1b[31m\x1b[200~ \x1b]11;\x1b[201~", [("paste", "\x1b[31m\x1b[200~ \x1b]11;")]),
        ("\x1b[201~", []),
    ],
)
def test_each_form_is_read_alike_however_it_is_cut(sent: str, keys: Told) -> None:
    data = sent.encode()
    assert heard(data) == keys
    for cut in range(1, len(data)):
        for pause in (0.0, 0.05, 0.5):
            before = KITTY if cut == 1 or data[cut - 1] == 0x1B else b""
            assert heard(data[:cut], pause, data[cut:], before=before) == keys, (cut, pause)


@pytest.mark.parametrize(
    "sent", [b"\x1b[<0;10;10M", b"\x1b]11;rgb:0/0/0\x1b\\", b"\x1b[200~x\x1b[201~"]
)
def test_behind_an_escape_that_came_alone_no_text_is_left(sent: bytes) -> None:
    """Where the Esc key is a byte, one that is cut off is pressed; the rest is still no text."""
    assert heard(b"\x1b", 0.3, sent[1:]) == [("escape", "\x1b"), *heard(sent)]


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.08, 0.3])
@pytest.mark.parametrize("text", ["h", "1", "日", "/", " ", "\r"])
def test_what_is_typed_right_behind_an_escape_takes_it_not_away(text: str, pause: float) -> None:
    """A terminal writes Alt and a character at once; the Esc key comes by itself."""
    assert heard(b"\x1b", pause, text.encode()) == [("escape", "\x1b"), *heard(text.encode())]


def test_what_is_pasted_in_pieces_is_one_paste() -> None:
    pieces = (b"\x1b[200~hello", 0.3, b" world \x1b[2", 0.3, b"01~!")
    assert heard(*pieces) == [("paste", "hello world "), ("exclamation_mark", "!")]


def test_a_paste_without_an_end_is_taken_after_a_silence_and_the_keys_are_free() -> None:
    played = Played()
    played.send(b"\x1b[200~a\x1b[2", PASTE_SILENCE - 0.1)
    assert played.told == []
    played.pass_time(0.2)
    assert played.told == [("paste", "a"), ("PasteUnfinished",)]
    assert isinstance(played.events[-1], PasteUnfinished)
    played.send(b"01~")  # the mark after all
    played.send(b"b\r")
    assert played.told[2:] == [("b", "b"), ("enter", "\r")]


@pytest.mark.parametrize("rest", [b"one\rtwo\r", b"one\n", b"\ntwo", b"two\x1b[201~"])
def test_the_rest_of_a_paste_that_stood_still_sends_nothing(rest: bytes) -> None:
    """Its lines are text however late they come, until the end mark; a key alone is a key."""
    played = Played()
    played.send(b"\x1b[200~a", PASTE_SILENCE + 0.1)
    played.send(b"\r", 5.0)
    assert played.told[2:] == [("enter", "\r")]
    played.send(rest)
    played.send(b"" if rest.endswith(b"~") else b"\x1b[201~")
    assert played.told[3:] == [("paste", rest.removesuffix(b"\x1b[201~").decode())]
    played.send(b"ok\r")
    assert played.told[4:] == [*typed("ok"), ("enter", "\r")]


@pytest.mark.parametrize("cut", [0, 3, 12])
def test_a_paste_behind_one_without_an_end_is_a_paste_of_its_own(cut: int) -> None:
    data = b"\x1b[200~b\nc\nd\x1b[201~"
    pieces = (data[:cut], 0.3, data[cut:])
    assert heard(KITTY, b"\x1b[200~a", PASTE_SILENCE + 0.1, *pieces)[2:] == [("paste", "b\nc\nd")]


def test_a_long_paste_is_read_in_no_time() -> None:
    played, line = Played(), b"x" * 4095 + b"\n"
    played.send(b"\x1b[200~")
    for _ in range(2_000):
        played.send(line)
    played.send(b"\x1b[201~")
    assert played.told == [("paste", (line * 2_000).decode())]


@pytest.mark.parametrize("begin", [b"\x1b]52;c;", b"\x1bP>|", b"\x1b[1;1", b"\x1b[9"])
def test_a_sequence_without_end_is_dropped_and_the_keys_are_free(begin: bytes) -> None:
    """However long it is, and neither is it kept."""
    played = Played()
    played.send(begin)
    for _ in range(400):
        played.send(b"1" * 4096)
    assert len(played.input._pending) < 10_000  # pyright: ignore[reportPrivateUsage]
    played.pass_time(SEQUENCE_SILENCE + 0.1)
    played.send(b"ok\r")
    assert played.told == [*typed("ok"), ("enter", "\r")]


@pytest.mark.parametrize("text", ["[1x]", "]x", "Pq", "Oh", "_x"])
def test_a_key_with_alt_that_looks_like_a_beginning_takes_no_other_key_away(text: str) -> None:
    characters = [
        character for _, character in heard(f"\x1b{text[0]}".encode(), 0.5, text.encode())
    ]
    assert "".join(map(str, characters)).endswith(text)


# --- lists of events -----------------------------------------------------------------------------

_KEYS: Final[dict[bytes, tuple[object, ...]]] = {
    b"a": ("a", "a"),
    "日".encode(): ("日", "日"),
    "é".encode(): ("é", "é"),
    b"\r": ("enter", "\r"),
    b"\x03": ("ctrl+c", "\x03"),
    b"\x1b[A": ("up", None),
    b"\x1b[1;2B": ("shift+down", None),
    b"\x1b[3~": ("delete", None),
    b"\x1bOQ": ("f2", None),
    b"\x1b[27;2;13~": ("shift+enter", None),
    b"\x1b[27u": ESCAPE,
    b"\x1b[1089::99;5u": ("ctrl+c", None),
    b"\x1b[98;1:1u": ("b", "b"),
    b"\x1b[<0;12;7M": ("MouseDown", 11.0, 6.0, 1),
    b"\x1b[I": ("AppFocus",),
    b"\x1bb": ("ctrl+left", None),
}
_REPLIES: Final = (
    b"\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\",
    b"\x1b]10;#fff\x07",
    b"\x1b[?62;22c",
    b"\x1b[>1;10;0c",
    b"\x1b[?0u",
    b"\x1bP1+r544e=78\x1b\\",
    b"\x1b[M\xff\xc3\x28",
    b"\x1b[24;80R",
    b"\x1b[98;1:3u",
)

_pastes = st.text(
    st.one_of(
        st.sampled_from("ab\x1b[201~\n日\x1b[Mm;?]"), st.characters(exclude_categories=["Cs"])
    ),
    max_size=20,
).filter(lambda text: "\x1b[201~" not in f"{text}\x1b[201" and "\x00" not in text)


def _sent_key(data: bytes) -> tuple[bytes, Told]:
    return data, [_KEYS[data]]


def _sent_reply(data: bytes) -> tuple[bytes, Told]:
    return data, []


def _sent_paste(text: str) -> tuple[bytes, Told]:
    return b"\x1b[200~" + text.encode() + b"\x1b[201~", [("paste", text)]


_sent = st.one_of(
    st.sampled_from(sorted(_KEYS)).map(_sent_key),
    st.sampled_from(_REPLIES).map(_sent_reply),
    _pastes.map(_sent_paste),
)


@settings(max_examples=rounds(2_000, 300), deadline=None)
@given(
    st.lists(_sent, max_size=8),
    st.dictionaries(st.integers(1, 150), st.sampled_from((0.0, 0.02, 0.15, 0.5)), max_size=8),
    st.booleans(),
)
def test_pieces_are_the_whole(
    sent: list[tuple[bytes, Told]], cuts: dict[int, float], kitty: bool
) -> None:
    """Whatever keys, pastes and replies come, and wherever they are cut, those events come out."""
    data = b"".join(piece for piece, _ in sent)
    played, at = Played(KITTY if kitty else b""), 0
    for cut, pause in sorted(cuts.items()):
        if cut < len(data) and (kitty or data[cut - 1] != 0x1B):  # there, that Esc is a key
            played.send(data[at:cut], pause)
            at = cut
    played.send(data[at:], 10.0)
    assert played.told == [event for _, expected in sent for event in expected]


# --- bytes that nobody meant ---------------------------------------------------------------------


def strange_pieces(seed: int) -> Iterable[tuple[bytes, float]]:
    """Some of those, cut anywhere, with pauses."""
    luck = random.Random(seed)
    data = b"".join(strange_bytes(luck) for _ in range(luck.randint(1, 6)))
    while data:
        cut = luck.randint(1, len(data))
        yield data[:cut], luck.choice((0.0, 0.0, 0.05, 0.2, 0.5))
        data = data[cut:]


def play(pieces: Iterable[tuple[bytes, float]]) -> Played:
    played = Played()
    for data, pause in pieces:
        played.send(data, pause)
    return played


def test_no_bytes_are_deadly_and_after_a_silence_every_key_is_heard() -> None:
    """The silence is as short as a person's who wonders what happened."""
    for seed in range(rounds(30_000, 8_000)):
        played = play(strange_pieces(seed))
        played.pass_time(PASTE_SILENCE + SEQUENCE_SILENCE + 0.1)
        assert played.input.seconds_until_tick(played.now) is None, seed
        before = len(played.events)
        for key in (b"o", b"k", b"\x1b[A", b"\r"):
            played.send(key, 0.1)
        assert played.told[before:] == [*typed("ok"), ("up", None), ("enter", "\r")], seed


def test_no_three_bytes_behind_an_escape_are_deadly() -> None:
    for first in some_of(range(256), 2):
        for second in range(256):
            for end in (b"", b"M", b"u", b"~", b"\x07"):
                played = play([(bytes([0x1B, first, second]) + end, 4.5)])
                played.send(b"ok")
                assert played.told[-2:] == typed("ok")


def every_cut(data: bytes) -> Sequence[tuple[bytes, bytes]]:
    return [(data[:cut], data[cut:]) for cut in range(len(data) + 1)]


def test_a_mouse_report_that_lost_its_end_leaves_nothing_and_takes_nothing() -> None:
    for begin, _ in every_cut(b"\x1b[<35;120;40M")[3:-1]:
        assert heard(begin, b"\x1b[<35;121;40M", b"x") == [
            ("MouseMove", 120.0, 39.0, 0),
            ("x", "x"),
        ]
        assert heard(begin, 1.1, b"x") == [("x", "x")]
