"""Format figures, times, costs and results in words, for the screen and for headless runs."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.safety.safe_text import visible_line
from duckflow_tui.state.base import JsonObject, one_line
from duckflow_tui.state.goal import Review
from duckflow_tui.state.pace import Reason
from duckflow_tui.state.usage import Waiting
from duckflow_tui.words.catalogue import Catalogue

#: Arguments that name the target of a call; the first one present counts.
TARGETS: Final = (
    "command", "pattern", "glob", "path", "source", "query", "goal", "step_id", "text", "message",
)  # fmt: skip
_SEARCH: Final = "file_ops.search_text"
_FOUND: Final = re.compile(r"(time-out · )?(\d+) · (\d+)")  # matches, files
_EXIT: Final = re.compile(r"exit (\d+)(.*)")  # exit code of a command, then its duration
_CHECKED: Final = re.compile(r"`([^`]*)` (?:ended with exit code (\d+)|did not run)")
_NAMED: Final = 2  # items that a verdict names; the others are counted
_PATHS: Final = frozenset({"path", "source"})
_PARAM: Final = 60  # characters of a parameter of a cause
_PLANNED: Final = ("accepted", "closed", "deleted")  # results of an operation on a plan


def size_text(size: int) -> str:
    """Return a size in bytes in its largest unit: ``812 B``, ``12 KB``, ``3.4 MB``."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{round(size / 1000)} KB"
    return f"{size / 1e6:.1f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def figures_words(operation: str, summary: str, words: Catalogue) -> str:
    """Return the summary of a call's result in the user's language: ``3 matches in 2 files`` for a
    search, ``4 steps`` for a plan, ``exit code 1`` for a command. Other summaries are returned
    as they are.
    """
    if operation == _SEARCH and (found := _FOUND.fullmatch(summary)):
        name = "transcript.found_in_time" if found[1] else "transcript.found"
        return words(name, matches=found[2], files=found[3])
    if operation.startswith("plan_tool.") and summary in _PLANNED:
        return words(f"transcript.planned.{summary}")
    if operation in ("plan_tool.propose", "task_tool.generate_list") and summary.isdecimal():
        return words(f"transcript.listed.{operation.partition('.')[0]}", count=summary)
    if operation.startswith("shell.") and (left := _EXIT.fullmatch(summary)):
        return words("output.exit", code=left[1]) + left[2]
    return summary


def no_digest_words(failure: str, words: Catalogue) -> str:
    """Return why a compaction has no digest. ``failure`` is "unreadable", "budget", or the code of
    a failed call to the model.
    """
    if failure in ("unreadable", "budget"):
        return words(f"compaction.failure.{failure}")
    what = f"transcript.waiting.{failure}"
    if words.has(what):
        return words("compaction.failure.other", what=words(what))
    return words("compaction.failure.unsaid")


def lack_words(what: str, words: Catalogue) -> str:
    """Return a missing item of a review with the English result of its check put into the user's
    language. The text is the user's and the model's, and not made safe.
    """

    def format_check(check: re.Match[str]) -> str:
        """Return the result of one check in words."""
        key = "review.check_failed" if check[2] else "review.check_not_run"
        return words(key, command=check[1], code=check[2] or "")

    return _CHECKED.sub(format_check, what)


def verdict_words(review: Review, words: Catalogue, *, outdated: bool = False) -> str:
    """Return a review's result on one line: ``Done: 2 of 2 · tests pass`` or ``Partly: 1 of 2 ·
    README``, the last part being the evidence or what is missing. ``outdated``: files have
    changed since, which is noted. Contains text of the user and the model that is not made safe.
    """
    if outdated:
        said = verdict_words(review, words), words("review.outdated")
        return " · ".join(said)
    met, counted = review.met_counts
    verdict = review.verdict
    said = [
        words(f"review.{verdict}", met=met, counted=counted, number=review.attempt,
              limit=review.max_attempts)
    ]  # fmt: skip
    if verdict == "done":
        if review.rests_on != "runs":
            said.append(words(f"review.rests_on.{review.rests_on}"))
        if review.unproven:
            said.append(words("review.unproven"))
        if review.remarks:
            said.append(words("review.remarks", count=len(review.remarks)))
        return " · ".join(said)
    if verdict == "unchecked":
        named = [i.requirement for i in review.items if i.requirement_id in review.unchecked]
    else:
        named = [lack_words(lack.what, words) for lack in review.missing] or [
            item.requirement for item in review.items if item.is_counted and item.state != "met"
        ]
    what = words("review.joined").join(" ".join(name.split()) for name in named[:_NAMED])
    if more := max(len(named) - _NAMED, 0):
        what += f" {words('review.more', count=more)}"
    between = ": " if verdict == "open" else " · "
    return between.join([*said, what] if what else said)


def reason_words(prefix: str, reason: Reason, words: Catalogue) -> str:
    """Return a cause or a hypothesis in words; its code where the catalogue has no entry below
    ``prefix``.
    """
    key = f"{prefix}.{reason.code}"
    if not words.has(key):
        return visible_line(reason.code)
    params = {name: one_line(value, _PARAM) for name, value in reason.params.items()}
    if "operation" in params:
        params["operation"] = words.name_operations(params["operation"])
    if "signs" in params:
        keys = {sign: f"consult.sign.{sign}" for sign in params["signs"].split()}
        signs = {sign: words(key) for sign, key in keys.items() if words.has(key)}
        if "repeat" in signs and "operation" in params:
            again = f"{params['operation']} {params.get('what', '')}".rstrip()
            signs["repeat"] = words("consult.sign.repeat_of", what=again)
        params["signs"] = words("consult.sign.join").join(signs.values())
    return words(key, **params)


def find_target(args: JsonObject) -> tuple[str, bool]:
    """Return what a call works on, by its arguments, on one line, and whether that is a path; empty
    where no argument is a text. For a move it is ``old.py → new.py``.
    """
    for name in TARGETS:
        value = args.get(name)
        if isinstance(value, str) and value.strip():
            target = args.get("target") if name == "source" else None
            moved = f" → {target.strip()}" if isinstance(target, str) else ""
            return visible_line(value.strip() + moved), name in _PATHS
    text = next((v for v in args.values() if isinstance(v, str) and v.strip()), "")
    return visible_line(text.strip()), False


def short_count(count: int) -> str:
    """Return a count in about four characters: 812, 4.2k, 42k, 1.3M."""
    if count < 1000:
        return str(count)
    if count < 9_950:
        return f"{count / 1000:.1f}k"
    if count < 999_500:
        return f"{count / 1000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def cost_text(dollars: float) -> str:
    """Format US dollars as ``$0.02``, below a cent as ``$0.0012``."""
    return f"${dollars:.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def clock_text(seconds: float) -> str:
    """Format a time that stands alone as ``0:48``, ``12:05`` or ``1:02:03``."""
    whole = max(0, int(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def took_text(seconds: float, words: Catalogue) -> str:
    """Format how long something took as ``0.4 s``, from ten seconds on as ``clock_text`` does."""
    if seconds >= 9.95:  # one decimal would make it 10.0
        return clock_text(seconds)
    return words("time.seconds", count=f"{max(0.0, seconds):.1f}")


def time_words(seconds: float, words: Catalogue) -> str:
    """Format a time within a sentence in its largest unit, rounded down: ``12 s``, ``6 min``."""
    whole = max(0, int(seconds))
    for unit, length in (("hours", 3600), ("minutes", 60)):
        if whole >= length:
            return words(f"time.{unit}", count=whole // length)
    return words("time.seconds", count=whole)


def waiting_words(waiting: Waiting, now: float, words: Catalogue) -> str:
    """Return why a call to a model makes no progress, and since when or until when; ``now`` is in
    seconds since the epoch.
    """
    key = f"transcript.waiting.{waiting.reason}"
    if waiting.until is not None:
        how, seconds = "transcript.tries_again", waiting.until - now + 0.999  # rounded up
    else:
        how, seconds = "transcript.waits_since", now - waiting.since
    time = time_words(seconds, words)
    if waiting.reason == "silent":
        return words(key, time=time)
    reason = words(key) if words.has(key) else visible_line(waiting.reason)
    return words(how, reason=reason, time=time)
