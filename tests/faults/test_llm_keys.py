"""A key goes to its origin and nowhere else, and appears nowhere."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest
from support.endpoint import bench, script

from duckflow_tui.scripted.endpoint import ScriptedEndpoint
from duckflow_tui.scripted.replies import Fault, Reply

KEY = "sk-test-0123456789abcdef"
GOOD = Reply(text="Hello.")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    """Covers R11."""
    async with ScriptedEndpoint(script(GOOD)) as thief:
        fault = Fault(status=status, headers={"Location": f"{thief.base_url}/chat/completions"})
        async with bench(script(Reply(fault=fault)), environ={"K": KEY}, api_key_env="K") as at:
            error = await at.fail()
        assert thief.requests == []
    assert error.code == "redirect"
    assert thief.origin in error.detail


async def test_a_redirect_of_the_model_list_is_not_followed_either() -> None:
    """Covers R11."""
    import httpx2

    from duckflow_tui.llm.transport import ForeignOrigin, open_http

    async with ScriptedEndpoint(script(GOOD)) as other, bench(script(GOOD)) as at:
        http = await open_http(at.endpoint, KEY, {}, 5.0)
        with pytest.raises(ForeignOrigin):
            await http.get(f"{other.base_url}/models")
        answer = await http.get(f"{at.server.base_url}/models")
        assert isinstance(answer, httpx2.Response)
        await http.aclose()
        assert other.requests == []
        assert at.server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_key_is_sent_and_nothing_of_the_environment_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Covers R11."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-origin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: leaked")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with bench(script(GOOD), environ={"K": KEY}, api_key_env="K") as at:
        await at.decide()
    headers = at.server.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    everything = repr(headers)
    for part in ("another-origin", "org-secret", "proj-secret", "leaked", "stainless"):
        assert part not in everything
    async with bench(script(GOOD)) as at:
        await at.decide()
    assert "authorization" not in at.server.requests[0].headers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500])
async def test_a_server_that_repeats_the_key_does_not_get_it_into_an_error(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fault = Fault(status=status, message=f"Incorrect key: {KEY}", headers={"Retry-After": "99"})
    answers = script(Reply(fault=fault), models=("duck-1",))
    async with bench(answers, environ={"K": KEY}, api_key_env="K", protocol="tools") as at:
        error = await at.fail()
    logging.getLogger("test").exception("failed", exc_info=error)
    story = "".join(traceback.format_exception(error))
    assert KEY not in story + repr(error.__dict__) + caplog.text
    assert "Incorrect key: •••" in error.detail


async def test_a_key_in_a_header_of_the_settings_is_masked_too() -> None:
    headers = {"X-Api-Key": "header-secret-77", "Authorization": "Bearer bearer-secret-88"}
    body = "You sent header-secret-77 and bearer-secret-88"
    async with bench(script(Reply(fault=Fault(status=401, body=body))), headers=headers) as at:
        error = await at.fail()
    assert at.server.requests[0].headers["x-api-key"] == "header-secret-77"
    assert "secret" not in error.detail


async def test_a_missing_key_is_named_before_anything_is_sent() -> None:
    async with bench(script(GOOD), api_key_env="WORK_KEY") as at:
        error = await at.fail()
    assert (error.code, error.detail) == ("no_key", "WORK_KEY")
    assert error.setting == "endpoints.here.api_key_env"
    assert at.server.requests == []
    assert error.call is None


@pytest.mark.parametrize("key", ["sk-日本", "sk-a\nX-Other: 1"])
async def test_a_key_that_no_header_can_carry_is_not_shown(key: str) -> None:
    async with bench(script(GOOD), environ={"K": key}, api_key_env="K") as at:
        error = await at.fail()
    assert error.code == "bad_key"
    assert "sk-" not in str(error)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://models.example.com/v1", "refused_url"),
        ("http://134744072/v1", "refused_url"),  # 8.8.8.8 in another spelling
        ("http://no-such-host-here/v1", "not_found_host"),
    ],
)
async def test_plain_http_does_not_leave_the_private_network(url: str, code: str) -> None:
    """Covers R11."""
    async with bench(script(GOOD), base_url=url) as at:
        error = await at.fail()
    assert error.code == code


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://a.example/v1", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://a.example/v1", {"all_proxy": "p:1"}, "http://p:1"),
        ("https://a.example/v1", {"https_proxy": "http://p:1", "no_proxy": ".example"}, None),
        ("https://a.example/v1", {"https_proxy": "http://p:1", "NO_PROXY": "*"}, None),
        ("https://a.example/v1", {"https_proxy": "http://p:1", "NO_PROXY": "a.example:443"}, None),
        (
            "https://a.example:8443/v1",
            {"https_proxy": "p:1", "NO_PROXY": "x, *.example:8443"},
            None,
        ),
        (
            "https://a.example/v1",
            {"https_proxy": "p:1", "NO_PROXY": "a.example:8443"},
            "http://p:1",
        ),
        (
            "https://a.example/v1",
            {"https_proxy": "p:1", "NO_PROXY": "ample,b.a.example"},
            "http://p:1",
        ),
        ("http://192.168.1.2/v1", {"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"}, None),
        ("https://localhost/v1", {"HTTPS_PROXY": "http://p:1"}, None),
    ],
)
def test_only_encrypted_requests_go_through_a_proxy(
    url: str, environ: dict[str, Any], proxy: str | None
) -> None:
    from duckflow_tui.llm.transport import find_proxy

    found = find_proxy(url, environ)
    assert (found and found.url) == proxy
