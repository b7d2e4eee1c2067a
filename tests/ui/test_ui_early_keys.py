"""Keys before the app: shown in the first frame, and every byte of them kept."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator

import pyte
import pytest

from duckflow_tui.ui import first_frame
from duckflow_tui.ui.early_keys import EarlyKeys

DEADLINE = 30.0


class Shown:
    """What the frame was told to draw; has room for ``room`` characters."""

    def __init__(self, room: int = 100) -> None:
        self.texts: list[str] = []
        self._room = room
        self._changed = threading.Condition()

    def __call__(self, text: str) -> bool:
        with self._changed:
            if len(text) <= self._room:
                self.texts.append(text)
            self._changed.notify_all()
        return len(text) <= self._room

    def wait(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.texts[-1:] == [text], DEADLINE), self.texts


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def test_keys_are_shown_as_they_come_and_kept(pipe: tuple[int, int]) -> None:
    shown, before = Shown(), len(os.listdir("/dev/fd"))
    keys = EarlyKeys(pipe[0], shown)
    data = "fix 日".encode()
    os.write(pipe[1], data[:-1])  # half a character shows nothing yet
    shown.wait("fix ")
    os.write(pipe[1], data[-1:])
    shown.wait("fix 日")
    os.write(pipe[1], b"\x7fX")
    shown.wait("fix X")
    assert keys.take_keys() == data + b"\x7fX"
    assert keys.take_keys() == b""
    assert len(os.listdir("/dev/fd")) <= before


@pytest.mark.parametrize("key", [b"\r", b"\x1b[200~", b"\x03", b"\t", "\u202e".encode()])
def test_from_a_key_that_does_something_on_keys_are_only_kept(
    key: bytes, pipe: tuple[int, int]
) -> None:
    shown = Shown()
    keys = EarlyKeys(pipe[0], shown)
    os.write(pipe[1], b"one" + key + b"two")
    shown.wait("one")
    os.write(pipe[1], b"three")
    _read_by(keys, pipe)
    assert keys.take_keys() == b"one" + key + b"twothree"
    assert shown.texts == ["one"]


def test_what_has_no_room_is_kept_too(pipe: tuple[int, int]) -> None:
    shown = Shown(room=3)
    keys = EarlyKeys(pipe[0], shown)
    os.write(pipe[1], b"one")
    shown.wait("one")
    os.write(pipe[1], b" two")
    _read_by(keys, pipe)
    os.write(pipe[1], b"\x7f" * 6)
    _read_by(keys, pipe)
    assert keys.take_keys() == b"one two" + b"\x7f" * 6
    assert shown.texts == ["one"]


def test_what_is_typed_afterwards_is_left_for_the_app(pipe: tuple[int, int]) -> None:
    for _ in range(50):
        keys = EarlyKeys(pipe[0], Shown())
        assert keys.take_keys() == b""
        assert all(thread.name != "early keys" for thread in threading.enumerate())
    os.write(pipe[1], b"later")
    assert os.read(pipe[0], 100) == b"later"


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (60, 20), (80, 24), (120, 40)])
def test_the_line_stands_where_the_hint_was_and_inside_every_size(size: tuple[int, int]) -> None:
    width, height = size
    palette = first_frame.palette_named("duck-dark")
    screen = pyte.Screen(width, height)
    stream = pyte.Stream(screen)
    stream.feed(first_frame.drawing(width, height, "en", "shop", palette))
    empty = list(screen.display)
    drawn = first_frame.render_typed_text("wörld 日本", width, height, "en", palette)
    if drawn is None:
        assert width < 20
        return
    stream.feed(drawn)
    changed = [row for row, line in enumerate(screen.display) if line != empty[row]]
    assert [empty[row].strip(" │")[:7] for row in changed] == ["Message"]
    assert empty[changed[0]].index("M") == screen.display[changed[0]].index("w")
    again = first_frame.render_typed_text("", width, height, "en", palette)
    assert again is not None
    stream.feed(again)
    assert list(screen.display) == empty
    assert first_frame.render_typed_text("x" * width, width, height, "en", palette) is None


def _read_by(keys: EarlyKeys, pipe: tuple[int, int]) -> None:
    """Wait until the thread has taken everything out of the pipe."""
    end = threading.Event()
    for _ in range(2000):
        if not _waiting(pipe[0]):
            return
        end.wait(0.005)
    raise AssertionError("the keys were not read")


def _waiting(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0)[0])


def test_a_terminal_that_hangs_up_ends_the_reading() -> None:
    """The end of the file, or an error: what came before is kept."""
    for hang_up in ("end", "error"):
        shown = Shown()
        reading, writing = os.pipe() if hang_up == "end" else os.openpty()
        keys = EarlyKeys(reading, shown)
        os.write(writing, b"a\n" if hang_up == "error" else b"a")
        shown.wait("a")
        os.close(writing)
        for reader in [t for t in threading.enumerate() if t.name == "early keys"]:
            reader.join(DEADLINE)
            assert not reader.is_alive(), hang_up
        assert keys.take_keys().startswith(b"a")
        os.close(reading)
