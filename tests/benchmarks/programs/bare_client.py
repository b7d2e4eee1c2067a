"""The yardstick of a stream: the openai client alone, reading replies as fast as they come.

Arguments: base URL, number of replies. Prints for each when its first and its last piece of
content was there, as a JSON line with seconds of the monotonic clock, and what it cost of CPU.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from openai import AsyncOpenAI

#: A request with native calls, so that the reply comes as plain content, as it does to the app.
_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "decide", "parameters": {"type": "object"}}}
]


async def main(base_url: str, replies: int) -> None:
    """Read the replies one after the other."""
    async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for _ in range(replies):
            before = time.process_time()
            stream = await client.chat.completions.create(
                model="scripted",
                messages=[{"role": "user", "content": "go on"}],
                tools=_TOOLS,
                stream=True,
            )
            times: list[float] = []
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    times.append(time.monotonic())
            cpu = time.process_time() - before
            print(json.dumps({"first": times[0], "last": times[-1], "cpu": cpu}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
