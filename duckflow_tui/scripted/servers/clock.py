"""A clock: the time now, here or in any time zone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from duckflow_tui.scripted.servers.serving import JsonObject, Tool, ToolProblem, serve


def current_time(timezone: str = "") -> JsonObject:
    """Return the present time to the second, in local time for no zone. Raises ToolProblem for an
    unknown zone.
    """
    now = datetime.now(UTC)
    if not timezone:
        local = now.astimezone()
        return _describe_moment(local, local.tzname() or "local")
    try:
        return _describe_moment(now.astimezone(ZoneInfo(timezone)), timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ToolProblem(f"there is no time zone {timezone!r}; one is Asia/Tokyo") from error


def _describe_moment(moment: datetime, timezone: str) -> JsonObject:
    """Return a moment's date, time and weekday under the name of its time zone."""
    return {
        "datetime": moment.isoformat(timespec="seconds"),
        "date": moment.strftime("%Y-%m-%d"),
        "time": moment.strftime("%H:%M:%S"),
        "weekday": moment.strftime("%A"),
        "timezone": timezone,
    }


TOOLS: Final = (
    Tool(
        "current_time",
        "Tells the date and the time now, of this machine or of a time zone.",
        current_time,
        {"timezone": {"type": "string", "description": "such as Asia/Tokyo; left out: here"}},
        frozenset({"timezone"}),
    ),
)

if __name__ == "__main__":
    serve("clock", TOOLS)
