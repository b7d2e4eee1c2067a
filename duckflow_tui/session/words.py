"""Formats sessions as text for lists, on the screen and on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.cells import cell_len

from duckflow_tui.safety.safe_text import SafeText, visible_line
from duckflow_tui.session.facts import Figures, SessionFacts
from duckflow_tui.session.faults import SessionFault, SessionInUse
from duckflow_tui.state.base import to_datetime
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import cost_text, size_text


def describe_session(facts: SessionFacts, say: Catalogue) -> Iterator[tuple[str, SafeText]]:
    """Yield the known facts of a session: the code of each, and its words."""
    plan = f"{facts.plan_done}/{facts.plan_steps}  {facts.plan}" if facts.plan_steps else ""
    rows = [
        ("title", facts.title),
        ("session", facts.session_id),
        ("forked_from", forked_words(facts)),
        ("workspace", facts.workspace),
        ("branch", facts.branch),
        ("model", facts.model),
        ("state", state_words(facts, say)),
        ("plan", plan),
        ("requirements", f"{facts.met}/{facts.requirements}" if facts.requirements else ""),
        ("spent", spent_words(facts, say)),
        ("started", format_time(facts.started_at)),
        ("ended", format_time(facts.last_at)),
        ("size", size_text(facts.size) if facts.size else ""),
        ("missing", say("sessions.missing", count=facts.missing) if facts.missing else ""),
    ]
    for name, text in rows:
        if text:
            yield name, visible_line(text)


def forked_words(facts: SessionFacts) -> str:
    """Return title and id of the session that this one was forked from; empty for none."""
    return " · ".join(filter(None, (facts.forked_title, facts.forked_from)))


def state_words(facts: SessionFacts, say: Catalogue) -> SafeText:
    """Return the state of the session in a few words; for an unreadable one the problem."""
    if facts.problem:
        return say(f"sessions.problem.{facts.problem}")
    state = say(f"sessions.state.{facts.state}")
    if not facts.in_use:
        return state
    waits = facts.state in ("gate", "card", "paused")
    return say("sessions.open_and", state=state) if waits else say("sessions.in_use")


def fault_words(fault: SessionFault, say: Catalogue) -> SafeText:
    """Return a sentence that says why a session cannot be opened or changed."""
    pid = str(fault.pid) if isinstance(fault, SessionInUse) and fault.pid else "?"
    path = str(fault.path)
    return say(f"resume.fault.{fault.code}", name=fault.path.name, path=path, pid=pid)


def spent_words(facts: SessionFacts, say: Catalogue) -> str:
    """Return the session's calls, tokens and cost; empty where no model was called."""
    if not facts.calls:
        return ""
    said = say("export.calls", count=facts.calls, tokens=f"{facts.tokens:,}")
    return said if facts.cost is None else f"{said} · {cost_text(facts.cost)}"


def figure_words(of: Figures, say: Catalogue) -> dict[str, str]:
    """Return the figures in words, by name. ``done`` is the share of the turns with work to do: a
    request answered by words alone is not counted in it.
    """
    work = of.turns - of.answered
    return {
        "sessions": str(of.sessions),
        "turns": str(of.turns),
        "answered": str(of.answered),
        "done": say("stats.share", percent=round(100 * of.done / work)) if work else "–",
        "attempts": f"{of.attempts / of.turns:.1f}",
        "score": f"{of.score / of.judged:.2f}" if of.judged else "–",
        "calls": str(of.calls),
        "approved": f"{of.approved}/{of.asked}" if of.asked else "–",
        "undone": str(of.undone),
    }


def figure_rows(months: Mapping[str, Figures], say: Catalogue) -> list[str]:
    """Return the lines of a table: heads, a row for each month, the sum; a single line without
    months.
    """
    if not months:
        return [say("stats.none")]
    total = Figures(*map(sum, zip(*months.values(), strict=True)))
    shown = [figure_words(of, say) for of in (*months.values(), total)]
    heads: list[str] = [say("stats.column.month"), *(say(f"stats.column.{n}") for n in shown[0])]
    names = [*months, say("stats.all")]
    rows = [heads, *([name, *of.values()] for name, of in zip(names, shown, strict=True))]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for row in rows:
        gaps = [wide - cell_len(text) for text, wide in zip(row, widths, strict=True)]
        figures = [" " * gap + text for gap, text in zip(gaps[1:], row[1:], strict=True)]
        lines.append("  ".join([row[0] + " " * gaps[0], *figures]))
    return lines


def format_time(at: float) -> str:
    """Return local date and time of day; empty for 0 and for a time out of range."""
    then = to_datetime(at)
    return then.strftime("%Y-%m-%d %H:%M") if then else ""


def format_day(at: float, now: float) -> str:
    """Return the time of day for today, else the date; empty for 0 and for a time out of range."""
    then, today = to_datetime(at), to_datetime(now)
    if then is None or today is None:
        return ""
    if then.date() == today.date():
        return then.strftime("%H:%M")
    return then.strftime("%m-%d" if then.year == today.year else "%Y-%m-%d")
