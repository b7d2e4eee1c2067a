"""What is known of models: the catalogue of the package, and what endpoints said over it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from duckflow_tui.llm.connections import Connections, ModelConnection, ModelLine
from duckflow_tui.llm.endpoints import Endpoint, ModelRef
from duckflow_tui.llm.known_models import KnownModels, ModelFacts, load_packaged

OPENAI = "https://api.openai.com:443"
ANTHROPIC = "https://api.anthropic.com:443"
ROUTER = "https://openrouter.ai:443"
GPT = "openai/gpt-4o"
HERE = "http://127.0.0.1:11434"


def prices(facts: ModelFacts) -> tuple[float | None, float | None, float | None]:
    return facts.prices.prompt, facts.prices.cached, facts.prices.reply


def test_the_catalogue_has_a_date_and_its_prices_are_in_order() -> None:
    """What comes from a cache is never dearer than what does not, and a reply never cheaper."""
    known = load_packaged()
    assert re.fullmatch(r"20\d\d-\d\d", known.date)
    assert "pproximate" in (
        Path(__file__).parents[2] / "duckflow_tui" / "llm" / "models.toml"
    ).read_text(encoding="utf-8")
    for maker in known.maker:
        for origin in maker.origins:
            assert Endpoint(name="x", base_url=f"{origin}/v1").origin == origin
        for name, price in maker.prices.items():
            assert price.prompt is not None, name
            assert price.reply is not None, name
            cached, write = price.cached or price.prompt, price.write or price.prompt
            assert 0 < cached <= price.prompt <= write <= price.reply, name
            assert (price.long_above > 0) == (price.long_prompt > 1), name
            assert KnownModels().facts_of(maker.origins[0], name).context, name


@pytest.mark.parametrize(
    ("origin", "model", "context", "wanted"),
    [
        (OPENAI, "gpt-4o", 128_000, (2.5, 1.25, 10.0)),
        (OPENAI, "gpt-4o-2024-08-06", 128_000, (2.5, 1.25, 10.0)),
        (ROUTER, "openai/gpt-4o", 128_000, (2.5, 1.25, 10.0)),
        (ROUTER, "anthropic/claude-sonnet-4", 200_000, (3.0, 0.3, 15.0)),
        (OPENAI, "gpt-4o-audio-preview", 128_000, (None, None, None)),  # another model, unknown
        (OPENAI, "gpt-6.2-sol", 1_050_000, (2.0, 0.1, 10.0)),
        (OPENAI, "gpt-5.9", 400_000, (None, None, None)),
        (ROUTER, "anthropic/claude-opus-5.5", 1_000_000, (4.0, 0.2, 20.0)),
        (ANTHROPIC, "claude-sonnet-4-5-20250929", 200_000, (3.0, 0.3, 15.0)),
        (ROUTER, "openai/gpt-4o:free", 128_000, (None, None, None)),
        (HERE, "gpt-4o", 128_000, (None, None, None)),  # elsewhere the name says no price
        (HERE, "qwen3-coder", 0, (None, None, None)),
    ],
)
def test_a_price_is_known_only_for_the_very_model_at_its_maker(
    origin: str, model: str, context: int, wanted: tuple[float | None, ...]
) -> None:
    facts = KnownModels().facts_of(origin, model)
    assert (facts.context, prices(facts)) == (context, wanted)


def test_what_an_endpoint_said_goes_before_the_catalogue_and_is_kept(tmp_path: Path) -> None:
    known = KnownModels(tmp_path)
    lines = [
        ModelLine(id="openai/gpt-4o", context=64_000, price_in=9.0, price_out=8.0),
        ModelLine(id="openai/o3", context=1_000),
    ]
    known.keep_lines(ROUTER, lines, "2026-11-23")
    for models in (known, KnownModels(tmp_path)):
        facts = models.facts_of(ROUTER, "openai/gpt-4o")
        assert (facts.context, facts.date) == (64_000, "2026-11-23")
        assert prices(facts) == (9.0, None, 8.0)  # one list of prices, not two
        assert "vision" in facts.abilities
        assert models.facts_of(ROUTER, "openai/o3").context == 1_000
        assert prices(models.facts_of(ROUTER, "openai/o3")) == (2.0, 0.5, 8.0)
        assert models.facts_of(OPENAI, "gpt-4o").date == load_packaged().date  # of another origin
    known.keep_lines(ROUTER, [], "2026-11-24")
    assert KnownModels(tmp_path).facts_of(ROUTER, "openai/gpt-4o").context == 128_000
    (tmp_path / "models.json").write_text("{broken")
    assert KnownModels(tmp_path).facts_of(ROUTER, "openai/gpt-4o").context == 128_000


@pytest.mark.parametrize(
    ("date", "context", "wanted"),
    [
        ("2026-11-24", 32_000, (1.0, 0.1, 4.0)),
        ("2026-11-23", 32_000, (1.0, 0.1, 4.0)),  # of the same day
        ("2026-11-22", 64_000, (9.0, None, 8.0)),
        ("", 64_000, (9.0, None, 8.0)),
    ],
)
def test_of_what_was_said_when_it_was_chosen_and_when_it_was_asked_the_newer_counts(
    tmp_path: Path, date: str, context: int, wanted: tuple[float | None, ...]
) -> None:
    """And what neither of them says is as the catalogue has it."""
    kept = Connections(tmp_path)
    kept.add_connection(ModelConnection(name="router", base_url=f"{ROUTER}/v1"))
    line = ModelLine(
        id=GPT, context=32_000, price_in=1.0, price_cached=0.1, price_out=4.0, date=date
    )
    (tmp_path / "connections.json").write_text(
        f"""{{"connections": {{"router": {kept.all[0].model_dump_json()}}},
        "models": {{"router/{GPT}": {line.model_dump_json()},
                    "router/openai/o3": {{"id": "openai/o3"}}}}}}"""
    )
    asked = ModelLine(id=GPT, context=64_000, price_in=9.0, price_out=8.0)
    KnownModels(tmp_path).keep_lines(ROUTER, [asked], "2026-11-23")
    known = KnownModels.load(Connections(tmp_path))
    facts = known.facts_of(ROUTER, GPT)
    assert (facts.context, prices(facts)) == (context, wanted)
    assert "vision" in facts.abilities
    assert prices(known.facts_of(ROUTER, "openai/o3")) == (2.0, 0.5, 8.0)


def test_what_is_chosen_is_dated_of_today(tmp_path: Path) -> None:
    """So that what is asked later goes before it."""
    kept = Connections(tmp_path)
    kept.add_connection(ModelConnection(name="router", base_url=f"{ROUTER}/v1"))
    before = time.strftime("%Y-%m-%d", time.gmtime())
    kept.choose_model(ModelRef("router", GPT), line=ModelLine(id=GPT, context=32_000))
    known = KnownModels.load(Connections(tmp_path))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert known.facts_of(ROUTER, GPT).date in (before, today)  # they differ at midnight
    known.keep_lines(ROUTER, [ModelLine(id=GPT, context=64_000)], "2999-01-01")
    assert known.facts_of(ROUTER, GPT).context == 64_000


@pytest.mark.parametrize(
    ("own", "model", "cost"),
    [
        ({}, "gpt-4o", 400 * 2.5 + 600 * 1.25 + 200 * 10.0),
        ({"price_in": 1.0, "price_out": 2.0}, "gpt-4o", 1000 * 1.0 + 200 * 2.0),
        ({"price_cached": 0.0}, "gpt-4o", 400 * 2.5 + 200 * 10.0),
        ({"price_in": 0.0}, "gpt-4o", 0.0),
        ({}, "gpt-9", None),
    ],
)
def test_an_own_price_goes_before_the_catalogue_and_what_nobody_knows_has_none(
    own: dict[str, float], model: str, cost: float | None
) -> None:
    endpoint = Endpoint.model_validate(
        {"name": "o", "base_url": "https://api.openai.com/v1", **own}
    )
    found = KnownModels().facts_at(endpoint, model).prices.cost_of(1000, 600, 0, 200)
    assert (None if found is None else round(found * 1_000_000)) == cost


@pytest.mark.parametrize(
    ("origin", "model", "prompt", "cost"),
    [
        (OPENAI, "gpt-6.2-sol", 272_000, 171_000 * 2 + 100_000 * 0.1 + 1_000 * 2.5 + 500 * 10),
        (OPENAI, "gpt-6.2-sol", 272_001, 171_001 * 4 + 100_000 * 0.2 + 1_000 * 5 + 500 * 15),
        (ANTHROPIC, "claude-haiku-5-5", 200_000,
         99_000 * 0.5 + 100_000 * 0.05 + 1_000 * 0.625 + 500 * 2.5),
        (ANTHROPIC, "claude-opus-4-8", 200_000,
         99_000 * 5 + 100_000 * 0.5 + 1_000 * 6.25 + 500 * 25),
    ],
)  # fmt: skip
def test_a_long_prompt_and_what_is_written_to_a_cache_cost_their_price(
    origin: str, model: str, prompt: int, cost: float
) -> None:
    """Of a prompt 100,000 tokens come from a cache and 1,000 are written to one; 500 of reply."""
    prices = KnownModels().facts_of(origin, model).prices
    found = prices.cost_of(prompt, 100_000, 1_000, 500)
    assert found is not None
    assert round(found * 1_000_000, 3) == round(cost, 3)


def test_the_api_of_a_model_is_its_makers() -> None:
    known = KnownModels()
    asked = [(OPENAI, "gpt-6.2-sol"), (OPENAI, "gpt-5.6-terra"), (OPENAI, "gpt-5"),
             (ROUTER, "openai/gpt-6.2-sol"), (HERE, "gpt-6.2-sol")]  # fmt: skip
    apis = [known.facts_of(origin, model).api for origin, model in asked]
    assert apis == ["responses", "responses", "chat", "chat", "chat"]
