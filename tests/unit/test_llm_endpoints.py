"""Where requests may go, and which key may go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.pinned import CountingIds, ManualClock

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.compose import make_first_event
from duckflow_tui.llm.endpoints import (
    Endpoint,
    ModelRef,
    Roles,
    find_need,
    is_loopback,
    is_private,
    resolve_key,
)
from duckflow_tui.llm.service import LLMService
from duckflow_tui.places import Places
from duckflow_tui.prompting.compiler import MOST_REPLY, request_room


def endpoint(base_url: str, name: str = "work", **fields: object) -> Endpoint:
    return Endpoint.model_validate({"name": name, "base_url": base_url, **fields})


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/v1",
        "host/v1",
        "https://",
        "https://me:secret@host/v1",
        "https://host/v1?key=1",
        "https://host/v1#x",
        "https://host:99999/v1",
        "https://ho st/v1",
        "https://höst/v1",
        "",
        None,
    ],
)
def test_an_address_that_could_mislead_is_refused(url: object) -> None:
    with pytest.raises(ValidationError):
        Endpoint.model_validate({"name": "x", "base_url": url})


@pytest.mark.parametrize(
    ("url", "need"),
    [
        ("https://models.example.com/v1", "nothing"),
        ("http://localhost:11434/v1", "nothing"),
        ("http://127.9.9.9/v1", "nothing"),
        ("http://[::1]:8080/v1", "nothing"),
        ("http://192.168.1.20:8000/v1", "confirmation"),
        ("http://10.0.0.5/v1", "confirmation"),
        ("http://[fd00::1]/v1", "confirmation"),
        ("http://100.100.1.1/v1", "confirmation"),
        ("http://nas:11434/v1", "confirmation"),
        ("http://nas.local/v1", "confirmation"),
        ("http://models.example.com/v1", "refused"),
        ("http://8.8.8.8/v1", "refused"),
        ("http://[::ffff:8.8.8.8]/v1", "refused"),
        ("http://localhost.example.com/v1", "refused"),
    ],
)
def test_plain_http_is_for_this_machine_or_a_confirmed_private_address(url: str, need: str) -> None:
    """Covers R11."""
    assert find_need(endpoint(url), {}) == need


def test_an_endpoint_whose_key_variable_is_empty_says_so() -> None:
    at = endpoint("https://models.example.com/v1", api_key_env="WORK_KEY")
    assert find_need(at, {"WORK_KEY": "  "}) == "key"
    assert find_need(at, {"WORK_KEY": "k"}) == "nothing"


@pytest.mark.parametrize(
    ("url", "fields", "environ", "key"),
    [
        ("https://a.example/v1", {"api_key_env": "K"}, {"K": " k1 "}, "k1"),
        ("https://a.example/v1", {}, {"OPENAI_API_KEY": "o", "DUCKFLOW_API_KEY": "d"}, None),
        ("https://api.openai.com/v1", {}, {"OPENAI_API_KEY": "o"}, "o"),
        ("https://api.openai.com:443/v1", {}, {"OPENAI_API_KEY": "o"}, "o"),
        ("http://api.openai.com/v1", {}, {"OPENAI_API_KEY": "o"}, None),
        ("https://api.openai.com.evil.example/v1", {}, {"OPENAI_API_KEY": "o"}, None),
        (
            "https://proxy.example/v1",
            {},
            {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "https://proxy.example/other"},
            "o",
        ),
        (
            "https://proxy.example:8443/v1",
            {},
            {"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "https://proxy.example/other"},
            None,
        ),
        ("http://192.168.1.2/v1", {"api_key_env": "K"}, {"K": "k"}, None),
        ("http://192.168.1.2/v1", {"api_key_env": "K", "allow_http_key": True}, {"K": "k"}, "k"),
        ("http://a.example/v1", {"api_key_env": "K", "allow_http_key": True}, {"K": "k"}, None),
        ("http://localhost:1/v1", {"api_key_env": "K"}, {"K": "k"}, "k"),
    ],
)
def test_a_key_belongs_to_its_origin(
    url: str, fields: dict[str, Any], environ: dict[str, str], key: str | None
) -> None:
    """Covers R11."""
    assert resolve_key(endpoint(url, **fields), environ) == key


def test_the_endpoint_of_the_command_line_prefers_the_app_s_own_variable() -> None:
    environ = {"DUCKFLOW_API_KEY": "d", "OPENAI_API_KEY": "o"}
    assert resolve_key(endpoint("https://api.openai.com/v1", "cli"), environ) == "d"
    assert resolve_key(endpoint("https://a.example/v1", "cli"), environ) == "d"
    assert resolve_key(endpoint("https://a.example/v1", "cli"), {"OPENAI_API_KEY": "o"}) is None


def test_names_that_only_look_local_are_not() -> None:
    assert is_loopback("app.localhost")
    assert not is_loopback("localhost.example.com")
    assert is_private("db.home.arpa")
    assert not is_private("local.example")


def test_one_model_may_serve_every_role() -> None:
    """Covers S1-5."""
    roles = Roles.model_validate({"main": "work/org/model-a", "fast": "work/small"})
    assert roles.model_of("main") == ModelRef("work", "org/model-a")
    assert roles.model_of("fast") == ModelRef("work", "small")
    assert roles.model_of("creative") == roles.model_of("evaluator") == roles.model_of("main")
    assert Roles().model_of("main") is None


@pytest.mark.parametrize("text", ["model", "/model", "endpoint/"])
def test_a_role_without_endpoint_or_model_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        Roles.model_validate({"main": text})


@pytest.mark.parametrize(
    "pasted",
    ["sk-proj-Ab12", "gsk_a1b2c3d4e5f6g7h8i9j0k1", "AIzaSyA1b2C3d4E5f6G7h8I9j0", "a key", "1KEY"],
)
def test_a_key_where_the_name_of_its_variable_belongs_is_refused_unseen(pasted: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Endpoint(name="work", base_url="https://models.example/v1", api_key_env=pasted)
    assert "not the key itself" in str(caught.value.errors()[0]["msg"])
    named = Endpoint(name="work", base_url="https://models.example/v1", api_key_env=" MY_KEY_2 ")
    assert named.api_key_env == "MY_KEY_2"


@pytest.mark.parametrize(
    ("model", "context", "window"),
    [
        ("gpt-4o-mini", None, 128_000),
        ("openai/gpt-4.1", None, 1_047_576),
        ("anthropic/claude-sonnet-4", None, 200_000),
        ("gpt-4", None, 8_192),
        ("gpt-4", 6_000, 6_000),
        ("a-model-of-my-own", None, 0),
        ("a-model-of-my-own", 32_768, 32_768),
    ],
)
def test_the_window_is_what_was_named_else_what_the_name_of_the_model_tells(
    tmp_path: Path, model: str, context: int | None, window: int
) -> None:
    """0: nothing is known, and 128,000 are taken."""
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path)})
    flags = Flags(
        workspace=tmp_path, base_url="http://127.0.0.1:1/v1", model=model, context=context
    )
    choice = choose_session(flags, places, "en", {})
    assert make_first_event(choice, "session_1", tmp_path, 0.0).context_window == window
    assert request_room(0) == 128_000 - MOST_REPLY


def test_each_role_has_the_window_of_its_own_model() -> None:
    """What the endpoint says of itself goes before what the name tells."""
    base = "https://models.example/v1"
    endpoints = {
        "work": Endpoint(name="work", base_url=base),
        "small": Endpoint(name="small", base_url=base, context=6_000),
    }
    roles = Roles(main="work/claude-sonnet-4", fast="work/gpt-4", evaluator="small/gpt-4")
    service = LLMService(endpoints, roles, CountingIds(), ManualClock(), {})
    assert [service.window_of(role) for role in ("main", "fast", "evaluator")] == [
        *(200_000, 8_192, 6_000)
    ]
    unknown = LLMService(endpoints, Roles(main="work/mine"), CountingIds(), ManualClock(), {})
    assert unknown.window_of("main") == 0
    assert LLMService({}, Roles(), CountingIds(), ManualClock(), {}).window_of("main") == 0
