"""Settings from file and environment: each wrong key costs only itself, and is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from duckflow_tui.choice import Flags, Unusable, choose_session, list_secrets
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.places import Places, peek_ui_settings
from duckflow_tui.project_settings import tighten_settings
from duckflow_tui.settings import Settings, list_settings, load_settings
from duckflow_tui.startup_facts import resolve_language
from duckflow_tui.state.operations import ApprovalMode
from duckflow_tui.tools.mcp.config import McpServerConfig
from duckflow_tui.words.catalogue import LANGUAGES, Catalogue, load_entries

FILE = """\
[endpoints.local]
base_url = "http://localhost:11434/v1"
context = 32768

[roles]
main = "local/qwen"

[execution]
max_steps = 7
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.find({"DUCKFLOW_HOME": str(tmp_path / "home")})


def write(places: Places, text: str | bytes) -> None:
    places.config.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    places.settings_file.write_bytes(data)


def test_without_a_file_every_key_has_its_default(places: Places) -> None:
    """Covers S4-76, S3-6."""
    loaded = load_settings(places, {})
    assert loaded.problems == []
    assert loaded.settings.execution.max_steps == 60
    budget = loaded.settings.budget
    assert (budget.base, budget.main, budget.specialized) == (500, 800, 1200)


def test_the_file_wins_over_defaults_and_the_environment_over_the_file(places: Places) -> None:
    """Covers S4-100."""
    write(places, FILE)
    environ = {
        "DUCKFLOW_EXECUTION__MAX_STEPS": "9",
        "DUCKFLOW_ENDPOINTS__OTHER__BASE_URL": "http://localhost:8080/v1",
        "DUCKFLOW_ROLES__FAST": "other/small",
        "DUCKFLOW_HOME": "/nowhere",
    }
    loaded = load_settings(places, environ)
    assert loaded.problems == []
    settings = loaded.settings
    assert settings.execution.max_steps == 9
    assert settings.endpoints["local"].context == 32768
    assert settings.endpoints["other"].base_url == "http://localhost:8080/v1"
    fast, creative = settings.roles.model_of("fast"), settings.roles.model_of("creative")
    assert (str(fast), str(creative)) == ("other/small", "local/qwen")


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("[execution]\nmax_steps = 'many'\n", 2, "execution.max_steps"),
        ("[execution]\n\nmax_stepz = 3\n", 3, "execution.max_stepz"),
        ("[execution]\nmax_steps = 0\n", 2, "execution.max_steps"),
        ("# x\n[executoin]\nmax_steps = 3\n", 2, "executoin"),
        ("execution = 3\n", 1, "execution"),
        ("ui.language = 'fr'\n", 1, "ui.language"),
        ("[endpoints.a]\ncontext = 5\n", 1, "endpoints.a.base_url"),
        (
            "[endpoints.a]\nbase_url = 'http://localhost/v1'\nprotocol = 'x'\n",
            3,
            "endpoints.a.protocol",
        ),
        ("[roles]\nmain = 'nothing'\n", 2, "roles.main"),
        ("[ui]\n\n[roles]\nfast = 'nowhere/m'\n", 4, "roles.fast"),
    ],
)
def test_a_wrong_key_is_named_with_its_line_and_the_default_holds(
    places: Places, text: str, line: int, key: str
) -> None:
    write(places, text)
    loaded = load_settings(places, {})
    assert [(p.line, p.key) for p in loaded.problems] == [(line, key)]
    said = loaded.problems[0].describe_problem(Catalogue())
    assert said.startswith(f"{places.settings_file}:{line}: {key}: ")
    assert said.endswith("; the default applies")
    assert loaded.settings.execution.max_steps == 60
    assert places.settings_file.read_text() == text


def test_a_role_on_an_endpoint_that_does_not_exist_hides_no_other_mistake(
    places: Places, tmp_path: Path
) -> None:
    write(places, "[execution]\nmax_stepz = 3\n[roles]\nmain = 'nowhere/m'\n[ui]\nanimation = 3\n")
    choice = choose_session(Flags(workspace=tmp_path), places, "en", {})
    assert [(p.line, p.key) for p in choice.problems] == [
        (2, "execution.max_stepz"),
        (6, "ui.animation"),
        (4, "roles.main"),
    ]
    assert choice.endpoint_missing


def test_a_refusal_carries_what_else_is_wrong(places: Places, tmp_path: Path) -> None:
    text = FILE.replace("max_steps", "max_stepz").replace("local/qwen", "elsewhere/qwen")
    write(places, text)
    with pytest.raises(Unusable, match=r"--model") as refused:
        choose_session(Flags(workspace=tmp_path, headless=True), places, "en", {})
    keys = [problem.key for problem in refused.value.problems]
    assert keys == ["execution.max_stepz", "roles.main"]


def test_an_endpoint_that_is_set_where_the_role_is_not_counts(places: Places) -> None:
    write(places, "[roles]\nmain = 'late/m'\n")
    loaded = load_settings(places, {"DUCKFLOW_ENDPOINTS__LATE__BASE_URL": "http://localhost:1/v1"})
    assert loaded.problems == []


WRONG = """\
[execution]
max_steps = 'many'
max_model_calls = 0
mode = 3
nothing = 1
[files]
max_write_bytes = 1.5
[shell]
timeout_s = 'long'
[ui]
theme = 'pink'
animation = 'perhaps'
[approval]
mode = 'lax'
[endpoints.a]
base_url = 'http://localhost:1/v1'
headers = 3
context = -1
first_token_s = 0
temperature = 9
[endpoints.b]
base_url = 'ftp://x'
[endpoints.c]
base_url = 'http://me:pw@localhost/v1'
[endpoints.d]
base_url = 'http://localhost/v1?x=1'
[endpoints.e]
base_url = 'http://localhost/ü'
[endpoints.f]
[endpoints.g]
base_url = 'http://[/v1'
[endpoints.""]
base_url = 'http://localhost:1/v1'
[roles]
main = 'x'
fast = 'x/y'
[mcp.servers.both]
[mcp.servers.far]
url = 'http://example.com'
[mcp.servers.login]
url = 'https://me:pw@example.com'
[mcp.servers.ok]
command = 'true'
args = 3
env = { "a b" = "c" }
query_tool = 'q'
[mcp.servers."a name"]
[mcp.other]
[other]
"""


def test_every_mistake_is_said_in_words_of_the_apps_own(places: Places, tmp_path: Path) -> None:
    write(places, WRONG)
    table = {"DUCKFLOW_PHASES__TABLE": str(tmp_path / "none.toml")}
    problems = choose_session(Flags(workspace=tmp_path, demo=True), places, "en", table).problems
    assert len(problems) == 32
    for say in (Catalogue("en"), Catalogue("ja")):
        for problem in problems:
            why = say(f"settings.why.{problem.code}", **problem.params)
            assert "settings.why" not in why, problem
            assert "{" not in why, problem
            assert "Input" not in why, problem
            assert why in problem.describe_problem(say)
    by_key = {problem.key: problem.describe_problem(Catalogue("ja")) for problem in problems}
    assert by_key["execution.max_steps"].endswith("整数で指定してください。既定値を使います。")
    assert "1 から 1,000" in by_key["execution.max_model_calls"]
    assert "duck-dark, duck-light, duck-contrast" in by_key["ui.theme"]
    assert "plan, strict, standard, trusted" in by_key["approval.mode"]


def test_a_denial_that_no_call_matches_is_named_and_the_others_hold(places: Places) -> None:
    text = '[approval]\ndeny = ["git push", "git:*push", "", 3, "mcp.shop.*"]\n'
    write(places, text)
    loaded = load_settings(places, {})
    assert loaded.settings.approval.deny == ("git push", "mcp.shop.*")
    said = [problem.describe_problem(Catalogue("en")) for problem in loaded.problems]
    assert [line.partition(":2: approval.deny: ")[2] for line in said] == [
        "“git:*push” has variables, substitutions or patterns, which match nothing; write the "
        "words themselves; the other rules in the list apply",
        "a rule must not be empty; the other rules in the list apply",
        "a rule must be text; the other rules in the list apply",
    ]
    ours, problems = tighten_settings(loaded.settings, text.replace("git push", "rm"), "x")
    assert ours.approval.deny == ("git push", "mcp.shop.*", "rm", "mcp.shop.*")
    assert [(problem.source, problem.line) for problem in problems] == [("x", 2)] * 3


@pytest.mark.parametrize(
    "data", [b"[execution\n", b"\xff\xfe broken", b"#" * 300_000, b"a = 1\na = 2\n"]
)
def test_an_unreadable_file_is_named_and_left_alone(places: Places, data: bytes) -> None:
    write(places, data)
    loaded = load_settings(places, {})
    assert len(loaded.problems) == 1
    assert loaded.problems[0].source == str(places.settings_file)
    assert loaded.settings.execution.max_steps == 60
    assert places.settings_file.read_bytes() == data
    assert peek_ui_settings(places) == {}


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({"LANG": "ja_JP.UTF-8"}, "ja"),
        ({"LC_ALL": "en_GB.UTF-8", "LANG": "ja_JP.UTF-8"}, "en"),
        ({}, "en"),
    ],
)
def test_the_language_follows_the_system(environ: dict[str, str], language: str) -> None:
    assert resolve_language("auto", environ) == language
    assert resolve_language("ja", environ) == "ja"


def test_flags_make_an_endpoint_of_their_own(places: Places, tmp_path: Path) -> None:
    flags = Flags(
        workspace=tmp_path, base_url="http://127.0.0.1:9/v1", model="org/m", protocol="json"
    )
    choice = choose_session(flags, places, "en", {})
    main = choice.settings.roles.model_of("main")
    assert main is not None
    assert (main.endpoint, main.model) == ("cli", "org/m")
    assert choice.settings.endpoints["cli"].protocol == "json"


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ({"base_url": "nonsense", "model": "m"}, "--base-url"),
        ({"base_url": "http://example.com/v1", "model": "m"}, "example.com"),
        ({"base_url": "http://example.com/v1"}, "example.com"),
        ({"base_url": "http://192.168.0.9/v1", "headless": True}, "192.168.0.9"),
        ({"base_url": "http://192.168.0.9/v1", "model": "m", "headless": True}, "192.168.0.9"),
    ],
)
def test_what_nothing_can_be_started_with_is_refused_in_words(
    places: Places, tmp_path: Path, flags: dict[str, str], word: str
) -> None:
    """R11."""
    with pytest.raises(Unusable, match=word):
        choose_session(Flags(workspace=tmp_path, **flags), places, "en", {})  # type: ignore[arg-type]  # table of flags


def test_a_private_address_over_plain_http_waits_for_the_user(
    places: Places, tmp_path: Path
) -> None:
    """R11: confirmed once."""
    from duckflow_tui.places import ConfirmedOrigins

    flags = Flags(workspace=tmp_path, base_url="http://192.168.0.9:8000/v1", model="m")
    choice = choose_session(flags, places, "en", {})
    assert choice.confirm_origin == "http://192.168.0.9:8000"
    ConfirmedOrigins(places.data).confirm_origin(choice.confirm_origin)
    assert choose_session(flags, places, "en", {}).confirm_origin == ""
    assert ConfirmedOrigins(places.data).path.stat().st_mode & 0o077 == 0


def test_headless_consent_never_comes_from_settings(places: Places, tmp_path: Path) -> None:
    """R19."""
    write(places, FILE + "[approval]\nmode = 'trusted'\n")
    app = choose_session(Flags(workspace=tmp_path), places, "en", {})
    headless = choose_session(Flags(workspace=tmp_path, headless=True), places, "en", {})
    asked = choose_session(
        Flags(workspace=tmp_path, headless=True, mode="trusted"), places, "en", {}
    )
    assert (app.mode, headless.mode, asked.mode) == (
        ApprovalMode.TRUSTED,
        ApprovalMode.STANDARD,
        ApprovalMode.TRUSTED,
    )


@pytest.mark.parametrize("level", ["auto", "full", "none", "external"])
def test_the_command_line_says_what_is_to_hold_commands_before_the_settings(
    places: Places, tmp_path: Path, level: str
) -> None:
    """The settings cannot say ``external``: only who starts the program knows where it runs."""
    write(places, FILE + "[sandbox]\nlevel = 'none'\n")
    named = choose_session(Flags(workspace=tmp_path, sandbox=level), places, "en", {})
    assert named.sandbox.level == level
    assert choose_session(Flags(workspace=tmp_path), places, "en", {}).sandbox.level == "none"
    write(places, FILE + "[sandbox]\nlevel = 'external'\n")
    refused = choose_session(Flags(workspace=tmp_path), places, "en", {})
    assert [problem.key for problem in refused.problems] == ["sandbox.level"]
    assert refused.sandbox.level == "auto"


def test_nothing_of_the_workspace_is_read_before_it_is_trusted(
    places: Places, tmp_path: Path
) -> None:
    """R10."""
    (tmp_path / ".duckflow").mkdir()
    (tmp_path / ".duckflow" / "settings.toml").write_text("[approval]\nmode = 'trusted'\n")
    (tmp_path / "settings.toml").write_text("[approval]\nmode = 'trusted'\n")
    write(places, FILE)
    assert choose_session(Flags(workspace=tmp_path), places, "en", {}).mode is ApprovalMode.STANDARD


@pytest.mark.parametrize("text", [None, "edge = 3", "[[edge]]\nfrom = 'NOWHERE'\n", "\x00"])
def test_a_table_of_phases_that_cannot_be_used_is_named_and_the_built_in_holds(
    places: Places, tmp_path: Path, text: str | None
) -> None:
    """Covers S4-54."""
    table = tmp_path / "phases.toml"
    if text is not None:
        table.write_text(text)
    choice = choose_session(
        Flags(workspace=tmp_path, demo=True), places, "en", {"DUCKFLOW_PHASES__TABLE": str(table)}
    )
    assert [p.key for p in choice.problems] == ["phases.table"]
    assert choice.settings.phases.table == ""


# --- servers of tools --------------------------------------------------------------------------

SERVERS = """\
[mcp.servers.clock]
command = "clock"
args = ["--utc"]
env = { TZ = "UTC" }
timeout_s = 5

[mcp.servers.shop]
url = "https://example.org/mcp"
schema_tool = "describe"
query_tool = "ask"
"""


def test_servers_are_read_from_the_file_and_the_environment(places: Places) -> None:
    """Covers S4-100: servers bring operations of their own."""
    write(places, SERVERS)
    environ = {
        "DUCKFLOW_MCP__SERVERS__CLOCK__TIMEOUT_S": "7",
        "DUCKFLOW_MCP__SERVERS__OTHER__ARGS": '["a"]',
        "DUCKFLOW_MCP__SERVERS__OTHER__COMMAND": "other",
    }
    loaded = load_settings(places, environ)
    assert loaded.problems == []
    servers = loaded.settings.mcp.servers
    assert list(servers) == ["clock", "shop", "other"]
    assert servers["clock"].args == ("--utc",)
    assert (servers["clock"].timeout_s, servers["clock"].start_s) == (7.0, 10.0)
    assert servers["shop"].transport == "http"
    assert servers["other"].args == ("a",)


@pytest.mark.parametrize(
    ("text", "line", "code"),
    [
        ('[mcp.servers.a]\ncommand = "x"\ntimeout = 5', 3, "no_key"),
        ('[mcp.servers.a]\ncommand = "x"\ntimeout_s = 0', 3, "range"),
        ('[mcp.servers.a]\ncommand = "x"\nurl = "https://x.org"', 3, "command_or_url"),
        ('[mcp.servers.a]\nargs = ["x"]', 1, "command_or_url"),
        ('[mcp.servers.a]\nurl = "http://example.org/mcp"', 2, "address_private"),
        ('[mcp.servers.a]\nurl = "https://me:secret@example.org"', 2, "address_password"),
        ('[mcp.servers."a.b"]\ncommand = "x"', 0, "server_name"),
        ('[mcp.servers.a]\ncommand = "x"\nquery_tool = "q"', 1, "query_pair"),
        ("[mcp]\nserver = 1", 2, "no_key"),
    ],
)
def test_a_wrong_key_of_a_server_is_named(places: Places, text: str, line: int, code: str) -> None:
    write(places, text)
    problem = load_settings(places, {}).problems[0]
    assert (problem.line, problem.code) == (line, code)
    assert "secret" not in str(problem)


def test_the_secrets_of_servers_are_known_as_such(places: Places, tmp_path: Path) -> None:
    """What no log may hold: promise 7."""
    write(places, '[mcp.servers.a]\ncommand = "x"\nenv = { API_TOKEN = "hush", MODE = "fast" }')
    choice = choose_session(Flags(workspace=tmp_path, demo=True), places, "en", {})
    assert "hush" in list_secrets(choice.settings, {})
    assert "fast" not in list_secrets(choice.settings, {})


def test_the_bases_of_the_pacemaker_are_settings_by_the_name_of_the_kind(places: Places) -> None:
    write(places, "[pacemaker]\nmax = 30\n\n[pacemaker.base]\nDEBUGGING = 22\nRESEARCH = 0\n")
    loaded = load_settings(places, {"DUCKFLOW_PACEMAKER__BASE__GENERAL_CHAT": "4"})
    pacemaker = loaded.settings.pacemaker
    assert (pacemaker.min, pacemaker.max, pacemaker.fallback) == (3, 30, 15)
    assert (pacemaker.base.DEBUGGING, pacemaker.base.GENERAL_CHAT) == (22, 4)
    assert pacemaker.base.RESEARCH == 16  # the default holds
    problems = [(p.key, p.line, p.code) for p in loaded.problems]
    assert problems == [("pacemaker.base.RESEARCH", 6, "range")]


def test_each_value_says_which_source_set_it_last(places: Places, tmp_path: Path) -> None:
    write(places, FILE)
    environ = {
        "DUCKFLOW_EXECUTION__MAX_STEPS": "9",
        "DUCKFLOW_UI__THEME": "no-such-theme",
        "DUCKFLOW_MCP__SERVERS__TIME__COMMAND": "mcp-server-time",
    }
    flags = Flags(workspace=tmp_path, model="local/other", max_calls=5)
    origins = choose_session(flags, places, "en", environ).origins
    file = str(places.settings_file)
    assert origins["endpoints.local.base_url"] == (file, 2)
    assert origins["endpoints.local.context"] == (file, 3)
    assert origins["execution.max_steps"] == ("DUCKFLOW_EXECUTION__MAX_STEPS", 0)
    assert origins["mcp.servers.time.command"] == ("DUCKFLOW_MCP__SERVERS__TIME__COMMAND", 0)
    assert origins["roles.main"] == origins["execution.max_model_calls"] == ("", 0)
    assert "ui.theme" not in origins  # the default holds
    assert "roles.fast" not in origins


def test_each_value_has_words_that_say_what_it_means() -> None:
    settings = Settings(endpoints={"one": Endpoint(name="one", base_url="https://localhost")})
    settings.mcp.servers["two"] = McpServerConfig(name="two", command="server")
    words = [setting.words for setting in list_settings(settings)]
    assert {"setting.endpoints.NAME.context", "setting.mcp.servers.NAME.env"} < set(words)
    for language in LANGUAGES:
        assert [key for key in words if key not in load_entries(language)] == []
    told = {key for key in load_entries("en") if key.startswith("setting.")}
    assert told == set(words)
