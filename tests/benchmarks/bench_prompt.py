"""How long a prompt takes to compile, and how much of it a provider's cache can keep."""

from __future__ import annotations

import time
from typing import Any

from support.prompt_states import OPERATIONS, Talk, busy_state, compiler, long_talk

from duckflow_tui.prompting.compiler import PromptCompiler, prompt_tokens
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.prompt import Prompt

MESSAGES = 200
LIMIT_MS = 5.0
SHARE = 0.9
ROUNDS = 15


def measure() -> list[dict[str, Any]]:
    """Rows of what, measured, limit, met, unit; times are medians of 15 runs."""
    return [_cold(), _warm(), _shared()]


def _talk() -> Talk:
    talk = long_talk(MESSAGES // 4)
    busy = busy_state()
    for name in ("memory", "objective", "plans", "active_plan_id", "phase", "gates"):
        setattr(talk.state, name, getattr(busy, name))
    talk.state.usage = talk.state.usage.model_copy(update={"context_window": 128_000})
    return talk


def _compile(of: PromptCompiler, talk: Talk) -> Prompt:
    return of.compile(talk.state, OPERATIONS, pattern=PromptPattern.BASE_MAIN_SPECIALIZED)


def _row(what: str, measured: float, limit: float, met: bool, unit: str) -> dict[str, Any]:
    return {"what": what, "measured": measured, "limit": limit, "met": met, "unit": unit}


def _cold() -> dict[str, Any]:
    times: list[float] = []
    for _ in range(ROUNDS):
        of, talk = compiler(), _talk()
        begin = time.perf_counter()
        _compile(of, talk)
        times.append(time.perf_counter() - begin)
    took = round(sorted(times)[ROUNDS // 2] * 1000, 2)
    return _row(
        "compiling a prompt, 200 messages, first time", took, LIMIT_MS, took <= LIMIT_MS, "ms"
    )


def _warm() -> dict[str, Any]:
    of, talk = compiler(), _talk()
    _compile(of, talk)
    times: list[float] = []
    for n in range(ROUNDS):
        talk.loop("w = 1\n" * 100, f"src/w_{n}.py")
        begin = time.perf_counter()
        _compile(of, talk)
        times.append(time.perf_counter() - begin)
    took = round(sorted(times)[ROUNDS // 2] * 1000, 2)
    return _row(
        "compiling a prompt, 200 messages, next one", took, LIMIT_MS, took <= LIMIT_MS, "ms"
    )


def _before_tail(prompt: Prompt) -> list[str]:
    return [prompt.system, prompt.formats["json"], *(m.model_dump_json() for m in prompt.history)]


def _shared() -> dict[str, Any]:
    """The smallest share over 60 requests in 15 turns, from 20,000 tokens on."""
    of, talk = compiler(), _talk()
    smallest = 1.0
    before: list[str] = []
    for n in range(60):
        if n % 4 == 0:
            talk.user(f"Then part {n}.")
        talk.loop("v = 2\n" * 250, f"src/v_{n}.py")
        prompt = _compile(of, talk)
        now = _before_tail(prompt)
        if before and prompt_tokens(prompt) >= 20_000:
            same = 0
            for old, new in zip(before, now, strict=False):
                if old != new:
                    break
                same += len(new)
            smallest = min(smallest, same / sum(map(len, now)))
        before = now
    share = round(smallest, 3)
    return _row(
        "request before the tail that the last one had", share, SHARE, share >= SHARE, "share"
    )
