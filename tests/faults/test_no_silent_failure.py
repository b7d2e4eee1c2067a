"""Whatever breaks on the way to an answer ends in a sentence that names it: never in silence."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.endpoint import bench
from support.prepared import run_program
from support.session import action, decision, done, script, session
from support.whole import some_of

import duckflow_tui.llm.client as client_module
from duckflow_tui.llm.completion import Completion
from duckflow_tui.llm.errors import LlmError
from duckflow_tui.llm.transport import GuardedTransport
from duckflow_tui.prompting.compiler import PromptCompiler
from duckflow_tui.scripted.replies import Reply
from duckflow_tui.session.journal import JournalDisk
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.phase import Status
from duckflow_tui.tools.router import ToolRouter
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue
from duckflow_tui.work.budget import CallBudget
from duckflow_tui.work.review import Reviewer

Make = Callable[[], BaseException]

#: Each is made anew, since a traceback grows with every raise; the text must reach the sentence.
ERRORS: dict[str, tuple[Make, str]] = {
    "refused": (lambda: PermissionError(13, "Permission denied", "/x"), "Permission denied"),
    "no files": (lambda: OSError(24, "Too many open files"), "Too many open files"),
    "tls": (lambda: ssl.SSLError(1, "[SSL] wrong version"), "wrong version"),
    "value": (lambda: ValueError("an odd value"), "an odd value"),
    "runtime": (lambda: RuntimeError("cannot schedule"), "cannot schedule"),
    "key": (lambda: KeyError("choices"), "choices"),
    "unicode": (lambda: UnicodeEncodeError("idna", "x", 0, 1, "label too long"), "label too long"),
    "import": (lambda: ImportError("no module named socksio"), "socksio"),
    "memory": (MemoryError, "MemoryError"),
    "depth": (lambda: RecursionError("maximum depth"), "maximum depth"),
    "decoding": (lambda: httpx2.DecodingError("not gzip"), "not gzip"),
    "address": (lambda: httpx2.InvalidURL("no such port"), "no such port"),
    "protocol": (lambda: httpx2.UnsupportedProtocol("no such scheme"), "no such scheme"),
    "read": (lambda: httpx2.ReadError("it went away"), "it went away"),
    "used twice": (lambda: httpx2.StreamConsumed(), "stream"),
    "group": (lambda: ExceptionGroup("several", [OverflowError("port too large")]), "too large"),
}


def breaking(make: Make) -> Callable[..., Any]:
    """A function that raises."""

    def fail(*_: object, **__: object) -> Any:
        raise make()

    return fail


def breaking_later(make: Make) -> Callable[..., Any]:
    """A coroutine function that raises."""

    async def fail(*_: object, **__: object) -> Any:
        raise make()

    return fail


CLIENT_PLACES: dict[str, Callable[[pytest.MonkeyPatch, Make], None]] = {
    "construction": lambda patch, make: patch.setattr(
        client_module, "open_http", breaking_later(make)
    ),
    "send": lambda patch, make: patch.setattr(
        GuardedTransport, "handle_async_request", breaking_later(make)
    ),
    "stream": lambda patch, make: patch.setattr(Completion, "add_chunk", breaking(make)),
    "library": lambda patch, make: patch.setattr(
        client_module.AsyncOpenAI, "post", breaking_later(make)
    ),
}


@pytest.mark.parametrize(
    ("place", "name"), some_of([*itertools.product(CLIENT_PLACES, ERRORS)], 18)
)
async def test_whatever_leaves_the_client_is_an_error_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    """It is chained, it has words in both languages, and they hold what went wrong."""
    make, cause = ERRORS[name]
    async with bench(script(Reply(text="Hello.", repeat=True))) as at:
        with monkeypatch.context() as patch:
            CLIENT_PLACES[place](patch, make)
            with pytest.raises(LlmError) as caught:
                await at.decide()
        error = caught.value
        assert error.__cause__ is not None
        for language in LANGUAGES:
            said = Catalogue(language)(f"llm.error.{error.code}", **error.params)
            assert cause in said or language != "en", (error.code, said)
            assert f"llm.error.{error.code}" not in said
        assert (await at.decide(llm_id="llm_2")).text == "Hello."  # nothing is left behind


@pytest.mark.parametrize("place", CLIENT_PLACES)
async def test_a_cancellation_passes_through_the_client(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    async with bench(script(Reply(text="Hello."))) as at:
        CLIENT_PLACES[place](monkeypatch, asyncio.CancelledError)
        with pytest.raises(asyncio.CancelledError):
            await at.decide()


async def test_connections_that_cannot_be_closed_lose_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(script(Reply(text="Hello."))) as at:
        monkeypatch.setattr(GuardedTransport, "aclose", breaking_later(lambda: OSError(5, "late")))
        assert (await at.decide()).text == "Hello."


TURN_PLACES: dict[str, tuple[type, str]] = {
    "budget": (CallBudget, "permit_call"),
    "prompt": (PromptCompiler, "compile"),
    "router": (ToolRouter, "call"),
    "judge": (Reviewer, "review_work"),
}


@pytest.mark.parametrize(("place", "name"), some_of([*itertools.product(TURN_PLACES, ERRORS)], 6))
async def test_a_fault_within_a_turn_is_said_and_the_next_message_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    make, cause = ERRORS[name]
    (owner, method), look = TURN_PLACES[place], action("file_ops.list_dir", path=".")
    replies = script(decision("I look.", look), done("Seen."), done("I am here."))
    async with session(tmp_path, replies) as running:
        running.breaks = True
        with monkeypatch.context() as patch:
            fail = breaking if place == "prompt" else breaking_later
            patch.setattr(owner, method, fail(make))
            end = await running.turn("go")
        assert end.outcome == "failed"
        assert end.reason is not None
        assert cause in end.reason.params["because"]
        [notice] = [
            m
            for m in running.state.messages
            if isinstance(m, NoticeMessage) and m.key.startswith("engine.fault")
        ]
        for language in LANGUAGES:  # what the system says is said in Japanese too
            said = Catalogue(language)(notice.key, **notice.params)
            assert cause in said or (language == "ja" and "Error" in said)
        assert running.state.turn is None
        assert running.state.status is Status.ERROR
        assert (await running.turn("and now?")).outcome != "failed"


async def test_a_fault_beside_the_work_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message while work runs is answered beside it; the work goes on."""
    held = done("Hello.").model_copy(update={"hold": "rest", "hold_after": 10})
    async with session(tmp_path, script(held)) as running:
        running.breaks = True
        await running.engine.send("hi")
        await running.server.reached("rest", 30)
        with monkeypatch.context() as patch:
            patch.setattr(PromptCompiler, "compile", breaking(lambda: KeyError("aside")))
            await running.engine.send("how far?", when="now")
            await running.until(
                lambda state: any(
                    isinstance(m, NoticeMessage) and "aside" in m.params.get("error", "")
                    for m in state.messages
                )
            )
        running.server.release("rest")
        assert (await running.ended()).outcome == "answered"


async def test_a_writer_of_the_journal_that_dies_is_said_and_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JournalDisk, "write_line", breaking(lambda: KeyError("of the writer")))
    async with session(tmp_path, script(done("Hello."))) as running:
        assert (await running.turn("hi")).outcome == "answered"
        notice = next(
            m
            for m in running.state.messages
            if isinstance(m, NoticeMessage) and m.key.startswith("resume.memory")
        )
        assert "of the writer" in Catalogue("en")(notice.key, **notice.params)


# --- the program, as it is called -----------------------------------------------------------------

PROXIES: dict[str, tuple[dict[str, str], str]] = {
    "a SOCKS proxy": ({"ALL_PROXY": "socks5://127.0.0.1:9"}, "ALL_PROXY"),
    "an unknown kind": ({"HTTPS_PROXY": "ftp://127.0.0.1:9"}, "HTTPS_PROXY"),
    "half an address": ({"https_proxy": "http://me:hunter2@[bad"}, "https_proxy"),
    "a port that is none": ({"HTTPS_PROXY": "http://127.0.0.1:99999"}, "HTTPS_PROXY"),
    "no certificates": ({"SSL_CERT_FILE": "/nowhere.pem"}, "SSL_CERT_FILE"),
    "no certificates in it": ({"SSL_CERT_FILE": __file__}, "SSL_CERT_FILE"),
}


@pytest.mark.parametrize("name", some_of([*PROXIES], 3))
def test_an_environment_that_closes_the_way_is_named(tmp_path: Path, name: str) -> None:
    environ, variable = PROXIES[name]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), **environ}
    model = ["--base-url", "https://models.example/v1", "--model", "m"]
    run = run_program(["-p", "hi", *model, "--json"], cwd=tmp_path, environ=environ)
    last = json.loads(run.stdout.splitlines()[-1])
    told = [json.loads(line) for line in run.stdout.splitlines() if '"notice"' in line]
    assert (run.returncode, last["outcome"]) == (1, "failed")
    assert last["reason"]["code"] == "llm." + told[-1]["message"]["key"].rpartition(".")[2]
    assert told[-1]["message"]["params"]["setting"] == variable
    looked = run_program(["doctor", *model], cwd=tmp_path, environ=environ)
    assert looked.returncode == 1
    assert f"{variable} " in looked.stdout.partition("✗ Model")[2]
    assert "Traceback" not in run.stderr + looked.stderr
    assert "hunter2" not in run.stdout + looked.stdout
