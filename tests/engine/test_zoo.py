"""Each provider's rules kept strictly: a chat, a call, an edit through the gate, one thing more."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.session import session
from support.zoo import Provider, Spoken
from support.zoo_hosted import (
    Azure,
    Bedrock,
    DeepSeek,
    Gemini,
    Groq,
    Kimi,
    Mistral,
    OpenAi,
    OpenRouter,
    PoorOpenRouter,
)
from support.zoo_local import Gemma, LlamaCpp, LlamaCppPython, LmStudio, Ollama, SmallLlama, Vllm

from duckflow_tui.scripted.replies import Script
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.usage import LlmCallFinished

READ = ("file_ops__read_file", {"path": "a.py", "reasoning": "to see it"})
EDIT = ("file_ops__edit_file", {"path": "a.py", "edits": [{"old": "x = 1", "new": "x = 2"}]})
JUDGE = ("decide", {
    "rationale": "as asked", "goal_consistency": {"ok": True, "reason": "serves it"},
    "constraint_check": {"ok": True, "reason": "none broken"}, "next_step": "continue",
})  # fmt: skip
STORY = (
    Spoken("Hello, what shall I do?"),
    Spoken("I read it.", (READ,), "First I read the file."),
    Spoken("It says that x is 1."),
    Spoken("", (JUDGE, EDIT), "Now the edit, and why."),
    Spoken("x is 2 now."),
    Spoken("You are welcome."),
)
ASKED = ("hello", "what does a.py say?", "set x to 2", "thank you")

#: How often each one says no before it is understood, over the whole of the story.
ZOO: dict[type[Provider], int] = {
    Ollama: 0, LmStudio: 0, LlamaCpp: 1, Vllm: 0, OpenAi: 4, Azure: 0, OpenRouter: 0,
    DeepSeek: 1, Kimi: 2, Gemini: 0, Groq: 0, Mistral: 3, Bedrock: 1, Gemma: 2,
    SmallLlama: 2, LlamaCppPython: 3, PoorOpenRouter: 1,
}  # fmt: skip


@pytest.mark.parametrize("kind", ZOO, ids=lambda kind: kind.__name__)
async def test_the_work_is_done_by_the_rules_of_each(
    tmp_path: Path, kind: type[Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused is learned by one refusal, and the user sees no failure of it."""
    provider = kind(*STORY)
    monkeypatch.setenv("DUCKFLOW_API_KEY", provider.key)
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.py"
    file.write_text("x = 1\n")
    async with session(
        tmp_path, Script(), protocol="auto", mode="standard", provider=provider
    ) as s:
        assert (await s.turn(ASKED[0])).reply == "Hello, what shall I do?"
        read = await s.turn(ASKED[1])
        assert (read.outcome, read.reply) == ("done", "It says that x is 1.")
        assert "x = 1" in s.results()[0].result.text
        await s.engine.send(ASKED[2])
        gate = await s.answer(GateChoice.ONCE)
        assert gate.operation == "file_ops.edit_file"
        edited = await s.ended(3)
        assert (edited.outcome, edited.reply) == ("done", "x is 2 now.")
        assert file.read_text() == "x = 2\n"
        assert (await s.turn(ASKED[3])).reply == "You are welcome."
        assert all("tools" in body for body in provider.sent[: 2 if kind is Gemma else None])
        assert len(provider.broken) == ZOO[kind]
        # A template has one sentence for all; what it takes is found in two steps.
        assert kind is Gemma or len(set(provider.broken)) == len(provider.broken)
        assert not [key for key in s.notices() if key.startswith(("llm.error", "turn.repair"))]
        # A request that was too long is a call that failed, and the shorter one another.
        main = [e.call for e in s.events(LlmCallFinished) if e.call.purpose == "main"]
        counted = [call for call in main if call.error != "context_overflow"]
        cached = kind not in (Ollama, Vllm)
        assert [(c.tokens_in, c.tokens_out, c.tokens_cached) for c in counted] == [
            (asked, said, from_cache if cached else 0)
            for asked, said, from_cache in provider.counts
        ]
        assert not any(c.estimated for c in counted)
