"""A made-up place and its made-up weather: nothing here asks a network."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Final

from duckflow_tui.scripted.servers.serving import JsonObject, Tool, ToolProblem, serve

CITY: Final = "Duckhaven"
#: City → country, lowest and highest temperature in °C.
CITIES: Final[dict[str, tuple[str, int, int]]] = {
    "Duckhaven": ("Pondland", 8, 22),
    "Quackford": ("Pondland", 5, 18),
    "Teal Bay": ("Reedia", 14, 30),
}
_SKIES: Final = ("sunny", "cloudy", "light rain", "windy", "fog")


def where_am_i() -> JsonObject:
    """Return the made-up city of the demo and its country."""
    return {"city": CITY, "country": CITIES[CITY][0], "made_up": True}


def get_weather(city: str) -> JsonObject:
    """Return a city's made-up weather of today, the same all day. Raises ToolProblem for an unknown
    city.
    """
    name = next((known for known in CITIES if known.casefold() == city.strip().casefold()), None)
    if name is None:
        raise ToolProblem(f"only these are known here: {', '.join(CITIES)}")
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    draw = hashlib.sha256(f"{name} {day}".encode()).digest()
    _, lowest, highest = CITIES[name]
    return {
        "city": name,
        "date": day,
        "sky": _SKIES[draw[0] % len(_SKIES)],
        "temperature_c": lowest + draw[1] % (highest - lowest + 1),
        "made_up": True,
    }


TOOLS: Final = (
    Tool("where_am_i", "Tells the city where the user is (made up).", where_am_i),
    Tool(
        "weather",
        "Tells today's weather in a city (made up).",
        get_weather,
        {"city": {"type": "string", "description": "as where_am_i tells it"}},
    ),
)

if __name__ == "__main__":
    serve("place", TOOLS)
