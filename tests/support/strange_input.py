"""Bytes that no terminal should send, and some that it does."""

from __future__ import annotations

import random
from typing import Final

_NUMBERS: Final = (
    "",
    "0",
    "1",
    "-1",
    "3",
    "27",
    "99",
    "1089",
    "57358",
    "65536",
    "1114112",
    "9" * 30,
)


def _numbers(luck: random.Random, most: int) -> str:
    fields = [
        ":".join(luck.choice(_NUMBERS) for _ in range(luck.randint(1, 4)))
        for _ in range(luck.randint(0, most))
    ]
    return ";".join(fields)


def strange_bytes(luck: random.Random) -> bytes:
    """A sequence of some kind, well formed or not."""
    kind, numbers = luck.randrange(9), _numbers(luck, 5)
    if kind == 0:
        return f"\x1b[{numbers}{luck.choice('u~ABCDEFHPQRSZ')}".encode()
    if kind == 1:
        final = luck.choice(("M", "m", "c", "u", "n", "$y"))
        return f"\x1b[{luck.choice('<>=?')}{numbers}{final}".encode()
    if kind == 2:
        return (
            bytes([0x1B, luck.choice(b"]P_^X")])
            + numbers.encode()
            + luck.choice((b"", b"\x07", b"\x1b\\"))
        )
    if kind == 3:
        return b"\x1b[M" + luck.randbytes(luck.randint(0, 3))
    if kind == 4:
        return f"\x1b[{luck.choice(('48', '8', '4'))};{numbers}t".encode()
    if kind == 5:
        return b"\x1b[200~" + luck.randbytes(luck.randint(0, 9)) + luck.choice((b"", b"\x1b[201~"))
    if kind == 6:
        return luck.randbytes(luck.randint(1, 6))
    if kind == 7:
        return bytes([0x1B, *luck.randbytes(luck.randint(1, 3))])
    return luck.choice(
        (b"\x1b[I", b"\x1b[O", b"\x1b[?2048;2$y", b"\x1bO", b"\xc2\x9b1A", b"\x9b1A", b"\x00")
    )
