"""The model where the command line does not say it whole: taken where it is clear, else said."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.prepared import UNTOUCHED, run_program
from support.serving import Served, served
from support.session import done, script

from duckflow_tui.choice import Flags, choose_session
from duckflow_tui.headless import TaskSpawn
from duckflow_tui.llm.connections import Connections, KeyStore, ModelConnection
from duckflow_tui.llm.discovery import find_nearest
from duckflow_tui.llm.endpoints import ModelRef
from duckflow_tui.places import Places
from duckflow_tui.sessions import Sessions
from duckflow_tui.settings import Origin


@contextmanager
def serving(*models: str, key: str = "") -> Generator[Served]:
    replies = script(done("Hello."), done("Again."), done("Once more."))
    with served(replies.model_copy(update={"models": models, "key": key})) as made:
        yield made


class NoRing:
    """The keyring of a machine that has none: it stands in for the library."""

    priority = 0.0

    def get_keyring(self) -> NoRing:
        return self

    def get_password(self, service_name: str, username: str) -> str | None:
        raise NotImplementedError

    def set_password(self, service_name: str, username: str, password: str) -> None:
        raise NotImplementedError

    def delete_password(self, service_name: str, username: str) -> None:
        raise NotImplementedError


def port_of(server: Served) -> str:
    return server.endpoint.base_url.rpartition(":")[2].partition("/")[0]


def ran(
    tmp_path: Path,
    *arguments: str,
    ports: tuple[Served, ...] = (),
    environ: dict[str, str] | None = None,
) -> CompletedProcess[str]:
    """A run without a screen, with these servers on the ports that are asked."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    asked = ",".join(port_of(server) for server in ports)
    base = {
        "DUCKFLOW_HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "DUCKFLOW_DISCOVERY__PORTS": f"[{asked}]",
    }
    return run_program(["-p", "go", *arguments], cwd=work, environ={**base, **(environ or {})})


def asked(server: Served) -> list[str]:
    return [request.path for request in server.endpoint.requests]


def test_the_only_model_of_the_only_server_answers_and_is_named(tmp_path: Path) -> None:
    with serving("duck-1", "nomic-embed-text") as server:
        ended = ran(tmp_path, ports=(server,))
        assert (ended.returncode, ended.stdout) == (0, "Hello.\n")
        assert ended.stderr.splitlines()[0] == f"Using duck-1 at 127.0.0.1:{port_of(server)}."
        assert asked(server)[0] == "/v1/models"


async def test_the_settings_say_of_a_model_that_flags_name_in_part_that_it_is_from_them(
    tmp_path: Path,
) -> None:
    with serving("duck-1") as server:
        places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
        flags = Flags(workspace=tmp_path, base_url=server.endpoint.base_url)
        sessions, spawn = Sessions(choose_session(flags, places, "en", UNTOUCHED)), TaskSpawn()
        try:
            assert await sessions.open(spawn) is not None
            assert sessions.settings.settings.roles.main == "cli/duck-1"
            assert sessions.settings.origins["roles.main"] == Origin()
        finally:
            await spawn.end_tasks()
            await sessions.close()


def test_nothing_is_asked_where_an_endpoint_is_configured(tmp_path: Path) -> None:
    with serving("duck-1") as other, serving("duck-1") as server:
        url = server.endpoint.base_url
        ended = ran(tmp_path, "--base-url", url, "--model", "m", ports=(other,))
        assert (ended.returncode, asked(other)) == (0, [])
        assert "/v1/models" not in asked(server)
        assert "Using" not in ended.stderr


def test_several_models_are_named_and_none_is_taken(tmp_path: Path) -> None:
    with serving("b", "a") as server:
        ended = ran(tmp_path, ports=(server,))
        assert (ended.returncode, ended.stdout) == (2, "")
        assert "has several models. Choose one with --model: a, b" in ended.stderr
        assert asked(server) == ["/v1/models"]


def test_several_servers_are_named_with_their_models(tmp_path: Path) -> None:
    with serving("a") as one, serving("b") as two:
        ended = ran(tmp_path, ports=(one, two))
        assert ended.returncode == 2
        said = ended.stderr
    assert "Choose one with --model, or a server with --base-url" in said
    assert f"  127.0.0.1:{port_of(one)}: a\n" in said
    assert f"  127.0.0.1:{port_of(two)}: b\n" in said


def test_a_model_alone_is_found_at_the_server_that_has_it(tmp_path: Path) -> None:
    with serving("a", "b") as one, serving("c") as two:
        ended = ran(tmp_path, "--model", "b", ports=(one, two))
        assert ended.returncode == 0
        assert ended.stderr.startswith(f"Using b at 127.0.0.1:{port_of(one)}")
        assert asked(two) == ["/v1/models"]


def test_a_model_that_is_misspelt_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with serving("qwen3-coder:30b", "gemma3") as server:
        ended = ran(tmp_path, "--model", "qwen3-codr:30b", ports=(server,))
    assert ended.returncode == 2
    assert "No model named qwen3-codr:30b was found. Nearest: qwen3-coder:30b. " in ended.stderr
    assert "gemma3" in ended.stderr


def test_a_model_of_a_provider_whose_key_is_not_set_names_the_variable(tmp_path: Path) -> None:
    """Where no name comes near, none is told as the nearest."""
    with serving("gemma3") as server:
        there = ran(tmp_path, "--model", "gpt-5", ports=(server,))
    nowhere = ran(tmp_path, "--model", "claude-opus", ports=())
    assert (there.returncode, nowhere.returncode) == (2, 2)
    assert "No model named gpt-5 was found. Available:" in there.stderr
    assert "For gpt-5, set OPENAI_API_KEY, or name its server" in there.stderr
    assert "For claude-opus, set ANTHROPIC_API_KEY" in nowhere.stderr


def test_a_model_that_two_servers_have_is_not_guessed(tmp_path: Path) -> None:
    with serving("a") as one, serving("a") as two:
        ended = ran(tmp_path, "--model", "a", ports=(one, two))
    assert ended.returncode == 2
    assert "Choose one of them with --base-url" in ended.stderr


def test_a_model_without_any_server_says_what_is_missing(tmp_path: Path) -> None:
    ended = ran(tmp_path, "--model", "a")
    assert ended.returncode == 2
    assert "--model a needs a server" in ended.stderr
    assert "--base-url" in ended.stderr


def test_nothing_at_all_says_all_ways_in(tmp_path: Path) -> None:
    ended = ran(tmp_path)
    assert ended.returncode == 2
    for way in ("--base-url", "OPENAI_API_KEY", "settings.toml", "--demo"):
        assert way in ended.stderr


def test_an_address_alone_takes_its_only_model_or_names_them(tmp_path: Path) -> None:
    with serving("only") as server:
        root = server.endpoint.base_url
        ended = ran(tmp_path, "--base-url", f"{root}/chat/completions")
        assert (ended.returncode, ended.stdout) == (0, "Hello.\n")
        assert ended.stderr.startswith("Using only at 127.0.0.1:")
    with serving("a", "b") as server:
        ended = ran(tmp_path, "--base-url", server.endpoint.base_url)
        assert ended.returncode == 2
        assert "Choose one with --model: a, b" in ended.stderr
    ended = ran(tmp_path, "--base-url", "http://127.0.0.1:9/v1")
    assert ended.returncode == 2
    assert "No connection to 127.0.0.1:9" in ended.stderr


def test_a_key_of_the_environment_is_used_with_its_address(tmp_path: Path) -> None:
    with serving("duck-1", key="right") as server:
        own = {"OPENAI_BASE_URL": server.endpoint.base_url, "OPENAI_API_KEY": "right"}
        ended = ran(tmp_path, "--model", "duck-1", environ=own)
        assert (ended.returncode, ended.stdout) == (0, "Hello.\n")
        assert "with the key in OPENAI_API_KEY" in ended.stderr
        assert ran(tmp_path, "--api-key-env", "OPENAI_API_KEY", environ=own).returncode == 0
        with serving("first", "second") as other:
            many = ran(tmp_path, environ={**own, "OPENAI_BASE_URL": other.endpoint.base_url})
            assert "Choose one with --model: first, second" in many.stderr
        wrong = ran(tmp_path, environ={**own, "OPENAI_API_KEY": "sk-wrong-0123456789"})
    assert wrong.returncode == 2
    assert "rejected the key in OPENAI_API_KEY" in wrong.stderr
    assert "sk-wrong" not in wrong.stderr


def test_a_key_whose_address_nobody_knows_needs_one(tmp_path: Path) -> None:
    ended = ran(tmp_path, "--api-key-env", "MY_KEY", environ={"MY_KEY": "x"})
    assert ended.returncode == 2
    assert "--api-key-env MY_KEY needs --base-url" in ended.stderr


def test_what_was_chosen_on_the_screen_answers_here_too(tmp_path: Path) -> None:
    """Below the user's own settings; a stored key goes with it, to its own address only."""
    with serving("duck-1", key="stored") as server, serving("own") as own:
        data = tmp_path / "home" / "data"
        chosen = Connections(data, KeyStore(data, NoRing()))
        kept = ModelConnection(name="far", base_url=server.endpoint.base_url)
        chosen.add_connection(kept, "stored")
        chosen.choose_model(ModelRef("far", "duck-1"))
        ended = ran(tmp_path)
        assert (ended.returncode, ended.stdout) == (0, "Hello.\n")
        assert "Using" not in ended.stderr
        authorization = {r.headers.get("authorization") for r in server.endpoint.requests}
        assert authorization == {"Bearer stored"}
        settings = {
            "DUCKFLOW_ENDPOINTS__FAR__BASE_URL": own.endpoint.base_url,
            "DUCKFLOW_ROLES__MAIN": "far/own",
        }
        assert ran(tmp_path, environ=settings).returncode == 0
        assert {r.headers.get("authorization") for r in own.endpoint.requests} == {None}
        assert ran(tmp_path, "--base-url", server.endpoint.base_url).returncode == 0
    assert "stored" not in json.dumps([p.read_text() for p in (tmp_path / "home").rglob("*.log")])


def test_a_kept_key_that_is_wrong_or_gone_is_told_as_such(tmp_path: Path) -> None:
    """Of which connection it is, at which host, and what to do; no variable that nobody has set."""
    data = tmp_path / "home" / "data"
    chosen = Connections(data, KeyStore(data, NoRing()))
    with serving("duck-1", key="right") as server:
        chosen.add_connection(
            ModelConnection(name="far", base_url=server.endpoint.base_url), "sk-wrong-1234"
        )
        chosen.choose_model(ModelRef("far", "duck-1"))
        wrong = ran(tmp_path)
        (data / "keys.json").unlink()
        gone = ran(tmp_path)
    host = f"127.0.0.1:{port_of(server)}"
    assert (wrong.returncode, gone.returncode) == (1, 1)
    assert f"{host} rejected the key stored for far" in wrong.stderr
    assert f"{host} needs a key, but the one stored for far cannot be read" in gone.stderr
    for ended in (wrong, gone):
        assert "/connect" in ended.stderr
        assert "DUCKFLOW_KEY" not in ended.stderr
        assert "sk-wrong" not in ended.stderr + ended.stdout


def test_the_newest_session_of_the_folder_goes_on(tmp_path: Path) -> None:
    with serving("only") as server:
        assert ran(tmp_path, "--continue", ports=(server,)).returncode == 2
        first = ran(tmp_path, ports=(server,))
        again = ran(tmp_path, "--continue", ports=(server,))
        assert (again.returncode, again.stdout) == (0, "Again.\n")
        assert again.stderr.splitlines()[-1] == first.stderr.splitlines()[-1]
        for flags in (("--resume",), ("--no-session",), ("--demo",)):
            assert "--continue cannot be combined" in ran(tmp_path, "--continue", *flags).stderr


def test_in_the_app_a_part_of_the_flags_is_no_reason_to_refuse(tmp_path: Path) -> None:
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    for flags in (
        Flags(workspace=tmp_path, model="m"),
        Flags(workspace=tmp_path, base_url="http://localhost:1/v1"),
    ):
        assert choose_session(flags, places, "en", UNTOUCHED).endpoint_missing


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("qwen3-codr", ["qwen3-coder"]),
        ("coder", ["qwen3-coder"]),
        ("gpt-5", ["openai/gpt-5", "gpt-5-mini"]),
        ("zzz", []),
    ],
)
def test_the_nearest_names_are_those_that_were_meant(name: str, near: list[str]) -> None:
    names = ["gemma3", "qwen3-coder", "gpt-5-mini", "openai/gpt-5"]
    assert [found for found in find_nearest(name, names, 4) if found in near] == find_nearest(
        name, names, 4
    )
    assert set(near) <= set(find_nearest(name, names, 4))


def test_a_private_address_is_asked_for_nothing_before_the_user_confirmed_it(
    tmp_path: Path,
) -> None:
    """R11. Not that of the command line, of the settings or of the environment."""
    ended = ran(
        tmp_path,
        environ={"OPENAI_BASE_URL": "http://192.168.255.254:9/v1", "OPENAI_API_KEY": "x"},
    )
    assert ended.returncode == 2
    assert "Start the app once without -p to confirm it" in ended.stderr
    box = {"DUCKFLOW_ENDPOINTS__BOX__BASE_URL": "http://192.168.255.254:9/v1"}
    assert "Start the app once without -p to confirm it" in ran(tmp_path, environ=box).stderr
    places = Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})
    flags = Flags(workspace=tmp_path, base_url="http://192.168.255.254:9/v1")
    choice = choose_session(flags, places, "en", UNTOUCHED)
    assert (choice.endpoint_missing, choice.confirm_origin) == (True, "http://192.168.255.254:9")
