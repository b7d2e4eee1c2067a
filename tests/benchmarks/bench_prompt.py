"""How long a prompt takes to compile, and how much of it a provider's cache can keep."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.rows import Row, row
from support.prompt_states import OPERATIONS, Talk, busy_state, compiler, long_talk

from duckflow_tui.prompting.compiler import PromptCompiler, prompt_tokens
from duckflow_tui.state.decision import PromptPattern
from duckflow_tui.state.prompt import Prompt

MESSAGES = 200
LIMIT_MS = 5.0
SHARE = 0.9
ROUNDS = 15


def measure() -> list[Row]:
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


def _cold() -> Row:
    times: list[float] = []
    for _ in range(ROUNDS):
        of, talk = compiler(), _talk()
        times.append(_time(of, talk))
    return row("compiling a prompt, 200 messages, first time", median(times), LIMIT_MS, "ms")


def _warm() -> Row:
    of, talk = compiler(), _talk()
    _compile(of, talk)
    times: list[float] = []
    for n in range(ROUNDS):
        talk.loop("w = 1\n" * 100, f"src/w_{n}.py")
        times.append(_time(of, talk))
    return row("compiling a prompt, 200 messages, next one", median(times), LIMIT_MS, "ms")


def _time(of: PromptCompiler, talk: Talk) -> float:
    """The milliseconds that one prompt takes."""
    begin = time.perf_counter()
    _compile(of, talk)
    return (time.perf_counter() - begin) * 1000


def _before_tail(prompt: Prompt) -> list[str]:
    return [prompt.system, prompt.formats["json"], *(m.model_dump_json() for m in prompt.history)]


def _shared() -> Row:
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
    what = "request before the tail that the last one had"
    return row(what, smallest, SHARE, "share", at_least=True)
