"""Streams that fall silent, and answers made to hurt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.endpoint import bench, script

from duckflow_tui.llm.errors import DETAIL
from duckflow_tui.llm.exchange import MAX_TEXT
from duckflow_tui.scripted.replies import Fault, Reply

GOOD = Reply(text="Hello.")


async def test_silence_is_shown_and_taken_back_when_the_stream_goes_on() -> None:
    """Covers R18."""
    slow = Reply(text="Hello, duck.", chunk_size=6, fault=Fault(stall_after=6, stall_s=0.4))
    async with bench(script(slow), silent_s=0.05) as at:
        reply = await at.decide()
    assert reply.text == "Hello, duck."
    assert set(at.heard.reasons) == {"silent"}
    assert at.heard.waits[-1] is None


async def test_silence_in_a_reply_ends_it_after_idle_s() -> None:
    """Covers R18."""
    mute = Reply(text="Hello, duck.", chunk_size=6, fault=Fault(stall_after=6, stall_s=30.0))
    async with bench(script(mute, GOOD), silent_s=0.05, idle_s=0.3) as at:
        error = await at.fail()
    assert (error.code, error.seconds, error.setting) == ("stalled", 0.3, "endpoints.here.idle_s")
    assert at.heard.text == "Hello,"
    assert len(at.server.requests) == 1


@pytest.mark.parametrize("where", ["before the head", "before the first token"])
async def test_silence_before_the_first_token_ends_after_first_token_s(where: str) -> None:
    """Covers S3-34."""
    mute = Reply(text="Hello.", fault=Fault(stall_after=0, stall_s=30.0))
    if where == "before the head":
        mute = Reply(text="Hello.", first_delay_s=30.0)
    async with bench(script(mute, GOOD), first_token_s=0.3, idle_s=9.0) as at:
        error = await at.fail()
    assert (error.code, error.setting) == ("stalled", "endpoints.here.first_token_s")


async def test_keep_alives_count_as_life() -> None:
    """Covers R18."""
    fault = Fault(stall_after=0, stall_s=1.5, keepalive_s=0.1)
    async with bench(script(Reply(text="Hello.", fault=fault)), first_token_s=1.0) as at:
        assert (await at.decide()).text == "Hello."


async def test_reasoning_counts_as_life() -> None:
    """Covers R18."""
    long = Reply(text="Hello.", reasoning="thinking " * 15, chunk_size=9, delay_s=0.1)
    async with bench(script(long), idle_s=1.0) as at:
        assert (await at.decide()).text == "Hello."


def stream_of(*pieces: str) -> Reply:
    """A stream of one event with these pieces as its choices, and what follows them."""
    return Reply(raw=('data: {"choices":', *pieces, "}\n\n"))


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (Reply(fault=Fault(html=True)), "html", "<!doctype html>"),
        (Reply(fault=Fault(html=True, status=403)), "forbidden", "<!doctype html>"),
        (Reply(fault=Fault(body="this is no JSON")), "not_json", "this is no JSON"),
        (Reply(fault=Fault(body='{"choices": 7}')), "not_json", '{"choices": 7}'),
        (stream_of("[" * 100_000, "]" * 100_000), "not_json", "[[[["),
        (stream_of('[],"usage":{"prompt_tokens":', "9" * 5000, "}"), "not_json", "9999"),
        (stream_of('[{"delta":{"content":"', *(["x" * 65_536] * 800)), "too_large", "4 MB"),
        (Reply(fault=Fault(gzip_bytes=40 * 1024 * 1024)), "too_large", ""),
        (Reply(fault=Fault(html=True, headers={"x-kind": "text/event-stream"})), "html", "Sign in"),
        (Reply(fault=Fault(body="{" + " " * (40 * 1024 * 1024))), "too_large", "32 MB"),
        (Reply(fault=Fault(body="\x1b]52;c;AAAA\x07 \u202e" + "x" * 900)), "not_json", "\\x1b]52"),
    ],
)
async def test_what_is_no_answer_is_a_clean_error(reply: Reply, code: str, words: str) -> None:
    """Covers R18."""
    async with bench(script(reply, GOOD)) as at:
        error = await at.fail()
        if reply.fault is None or reply.fault.status == 200:
            assert (await at.decide()).text == "Hello."
    assert error.code == code
    assert words in error.detail
    assert len(error.detail) <= DETAIL
    assert error.detail.isprintable()
    assert at.heard.text in ("", "Hello.")


SERVER = """
import asyncio, json, sys
from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply, Script

async def main():
    said = json.loads(sys.argv[1])
    filler = [said.pop("filler", "x") * 65_536] * said.pop("fillers", 0)
    reply = Reply(raw=('data: {"choices":', *filler)) if filler else Reply(fault=Fault(**said))
    async with ScriptedEndpoint(Script(replies={"main": (reply,)})) as server:
        print(server.base_url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())
"""

CLIENT = """
import asyncio, resource, sys
from duckflow_tui.llm.endpoints import Endpoint, Roles
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.exchange import ReplyObserver
from duckflow_tui.llm.service import LLMService
from duckflow_tui.state.base import SystemClock, random_id
from duckflow_tui.state.prompt import Prompt

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

async def main():
    here = Endpoint(name="here", base_url=sys.argv[1])
    service = LLMService({"here": here}, Roles(main="here/m"), random_id, SystemClock(), {})
    await service.import_client()
    before = peak()
    try:
        await service.decide(Prompt(system="s"), llm_id="l", observer=ReplyObserver())
    except LlmError as error:
        print(error.code, (peak() - before) // 1024)
    await service.aclose()

asyncio.run(main())
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    "fault",
    [
        {"fillers": 800},
        {"gzip_bytes": 160 * 1024 * 1024},
        {"status": 400, "gzip_bytes": 160 * 1024 * 1024},
        {"fillers": 16, "filler": "["},
    ],
)
def test_memory_grows_by_less_than_100_mb(fault: dict[str, Any]) -> None:
    """Covers R18."""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, json.dumps(fault)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        done = subprocess.run(
            [sys.executable, "-c", CLIENT, url],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=root,
            check=True,
        )
        server.stdin.write("\n")
        server.stdin.close()
    code, grown = done.stdout.split()
    assert code in ("too_large", "not_json", "bad_request")
    assert int(grown) < 100


@pytest.mark.parametrize("chunk", [1_000, 300_000, 3_500_000])
@pytest.mark.parametrize("where", ["text", "reasoning"])
async def test_a_reply_that_does_not_end_is_cut_with_the_reason(where: str, chunk: int) -> None:
    """What came until then stays, however large the pieces are; nothing is asked for again."""
    size = MAX_TEXT * 5 // 2 if chunk > 1_000 else MAX_TEXT + 10_000
    texts: dict[str, Any] = {"text": "Hello.", where: "- word\n" * (size // 7)}
    async with bench(script(Reply(**texts, chunk_size=chunk), GOOD)) as at:
        error = await at.fail()
        heard = at.heard.text if where == "text" else "".join(at.heard.thoughts)
        assert len(at.server.requests) == 1
    assert (error.code, error.detail) == ("too_large", "over 1,000,000 characters")
    assert len(heard) == MAX_TEXT
    assert heard == texts[where][:MAX_TEXT]
    assert error.call is not None
    assert error.call.outcome == "incomplete"


async def test_a_reply_as_long_as_models_write_them_is_whole() -> None:
    long = "- word\n" * (MAX_TEXT // 7)
    async with bench(script(Reply(text=long, chunk_size=50_000))) as at:
        assert len((await at.decide()).text) >= len(long) - 1
