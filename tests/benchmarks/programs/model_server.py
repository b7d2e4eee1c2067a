"""The scripted endpoint in a process of its own: every reply is markdown and ends in a mark.

Arguments: characters of a reply, characters of a piece, seconds before each piece. The first
line of output holds the address; then two lines for each reply: when its request came, and when
its last piece of markdown was handed to the network (seconds of the monotonic clock).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.markdown_sample import mark, sample

from duckflow_tui.scripted.endpoint import Request, ScriptedEndpoint
from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.state.base import JsonObject

WITHIN_S = 600.0  # a reply takes less


def decision(reply: str) -> JsonObject:
    """A turn that ends with this reply."""
    return {
        "rationale": "as asked",
        "reply": reply,
        "goal_consistency": {"ok": True, "reason": "serves it"},
        "constraint_check": {"ok": True, "reason": "none broken"},
        "step": "REVIEW",
        "next_step": "done",
        "prompt_pattern": "base_main",
        "actions": [],
    }


class MarkdownModel:
    """Writes one reply after the other and tells when it was sent."""

    def __init__(self, characters: int, piece: int, delay_s: float) -> None:
        self._characters = characters
        self._piece = piece
        self._delay_s = delay_s
        self._sent = 0
        self._watching: set[asyncio.Task[None]] = set()
        self.server = ScriptedEndpoint(Script(), author=self.reply)

    def reply(self, request: Request) -> Reply | None:
        """The next one; its end is held until the time was taken."""
        came = time.monotonic()
        self._sent += 1
        number = self._sent
        text = f"{sample(self._characters)}\n\n{mark(number)}\n"
        told = asyncio.get_running_loop().create_task(self._tell(number, came))
        self._watching.add(told)
        told.add_done_callback(self._watching.discard)
        native = bool(request.json.get("tools"))
        return Reply(
            decision=decision(text),
            chunk_size=self._piece,
            delay_s=self._delay_s,
            hold=f"end {number}" if native else "",
            hold_after=len(text),
        )

    async def _tell(self, number: int, came: float) -> None:
        print(json.dumps({"came": came}), flush=True)
        await self.server.reached(f"end {number}", WITHIN_S)
        print(json.dumps({"sent": time.monotonic()}), flush=True)
        self.server.release(f"end {number}")


async def main(characters: int, piece: int, delay_s: float) -> None:
    """Serve until the process is ended."""
    model = MarkdownModel(characters, piece, delay_s)
    async with model.server as server:
        print(json.dumps({"base_url": server.base_url}), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
