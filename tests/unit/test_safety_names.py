"""Names that mean something (R09)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.safety.names import (
    BINARY_SUFFIXES,
    EXECUTABLE_SUFFIXES,
    PROTECTED,
    fold_name,
    has_unseen_characters,
    is_device_name,
    is_protected,
    is_secret,
    obeyed_kind,
    seen_suffix,
    words_of,
)

DISGUISES = st.sampled_from(["", ".", " ", ". .", "...", "\u200d", "\ufeff", "::$DATA", ":x"])


def sorted_words(text: str) -> list[str]:
    """The words in an order that each process of a run has."""
    return sorted(words_of(text))


@given(st.sampled_from(sorted(PROTECTED)), st.data(), DISGUISES)
def test_no_disguise_of_a_protected_name(name: str, data: st.DataObject, tail: str) -> None:
    """R09: any case, trailing dots and spaces, invisible characters, streams."""
    upper = data.draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
    twin = "".join(c.upper() if up else c for c, up in zip(name, upper, strict=True))
    assert is_protected(twin + tail)


@given(st.text(max_size=20))
def test_twins_fold_to_the_same(name: str) -> None:
    """R09: NFC and NFD, upper and lower case are one name."""
    nfc, nfd = unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)
    assert fold_name(nfc) == fold_name(nfd)
    assert fold_name(fold_name(name)) == fold_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("run.SH", ".sh"),
        ("x.exe ", ".exe"),
        ("x.exe. .", ".exe"),
        ("a.tar.gz", ".gz"),
        ("a", ""),
        (".sh", ".sh"),
    ],
)
def test_the_extension_a_system_would_see(name: str, expected: str) -> None:
    """C20: `run.SH` and `x.exe ` are what they are."""
    assert seen_suffix(name) == expected


def test_the_scripts_of_the_requirements() -> None:
    """Covers S4-82."""
    assert {".bat", ".sh", ".ps1"} <= EXECUTABLE_SUFFIXES
    assert ".exe" in BINARY_SUFFIXES
    safe = {".txt", ".md", ".py", ".json", ".yaml"}
    assert not safe & (EXECUTABLE_SUFFIXES | BINARY_SUFFIXES)


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".GitHub/Workflows/ci.yml",
        ".vscode/tasks.json",
        "sub/.envrc",
        ".husky/pre-commit",
        ".pre-commit-config.yaml",
        # what an editor or a shell obeys in the folder it is opened in
        *sorted_words(
            ".idea/workspace.xml sub/.zed/tasks.json .nvim.lua .exrc .vimrc .dir-locals.el "
            ".Rprofile mise.toml .mise.toml lefthook.yml"
        ),
        # and a server that builds
        *sorted_words(
            ".travis.yml azure-pipelines.yml .drone.yml bitbucket-pipelines.yml cloudbuild.yaml "
            ".woodpecker.yml .woodpecker/a.yml .buildkite/pipeline.yml .forgejo/workflows/x.yml "
            ".gitea/workflows/x.yml"
        ),
    ],
)
def test_what_other_programs_obey(path: str) -> None:
    assert obeyed_kind(path.split("/")) == "system_file"


@pytest.mark.parametrize("path", ["workflows/ci.yml", "src/github.py", ".github/README.md", "a.py"])
def test_what_they_do_not(path: str) -> None:
    assert obeyed_kind(path.split("/")) == ""


@pytest.mark.parametrize(
    "path",
    sorted(
        words_of(
            ".secrets secret.yml secret.json kubeconfig google-credentials.json auth.json key.p8 "
            "terraform.tfstate.backup .config/gh/hosts.yml server.pem.bak env.production "
            ".dev.vars .bash_history sub/Server.KEY.old"
        )
    ),
)
def test_secrets_by_other_names(path: str) -> None:
    assert is_secret(path.split("/"))


@pytest.mark.parametrize(
    "path", ["env.py", "secrets.py", "hosts.yml", "history.md", "keys.json", "secret_santa.py"]
)
def test_what_only_sounds_like_a_secret(path: str) -> None:
    assert not is_secret(path.split("/"))


@pytest.mark.parametrize(
    "path",
    sorted(
        words_of(
            "AGENTS.md docs/CLAUDE.md .claude/settings.json .cursor/rules/a.mdc Makefile "
            "sub/package.json "
            "pyproject.toml setup.py tests/conftest.py sitecustomize.py evil.pth build.rs "
            ".cargo/config.toml Dockerfile .gdbinit .venv/bin/python node_modules/.bin/jest "
            "vite.config.ts vite.config.mts next.config.mjs .eslintrc.js .eslintrc.cjs .babelrc.js "
            ".lintstagedrc.mjs gulpfile.js Gruntfile.ts .pnpmfile.cjs .yarn/releases/yarn.cjs "
            "flake.nix shell.nix Vagrantfile Taskfile.yml .justfile configure gradlew gradlew.bat "
            "mvnw build.sbt mix.exs Package.swift build.zig meson.build rules.cmake BUILD.bazel "
            "Directory.Build.props src/app.csproj build.xml Snakefile fabfile.py bunfig.toml "
            "docker-bake.hcl .pre-commit-hooks.yaml .irbrc .pryrc .rspec mypy.ini .mypy.ini "
            ".pylintrc .flake8 .coveragerc node_modules/x/index.js "
            ".venv/lib/python3.11/site-packages/json.py .clinerules .clinerules/a.md .roomodes "
            ".roo/rules/a.md .goosehints QWEN.md WARP.md .opencode/x.md .continue/config.json "
            ".kiro/x.md .aider.conf.yml .windsurf/rules/x.md .amazonq/rules/x.md .rules "
            ".junie/guidelines.md .github/instructions/a.md .github/prompts/a.md"
        )
    ),
)
def test_what_runs_or_steers_later(path: str) -> None:
    assert obeyed_kind(path.split("/")) == "runs_later"


@pytest.mark.parametrize(
    "path",
    sorted_words(
        "agents.py bin/tool package.md src/build.py a.py src/config.ts src/rc.js rules.py "
        "rules/a.md docs/configure.md src/configure.py .github/dependabot.yml tsconfig.json "
        "src/releases/a.js src/idea/x.xml kiro.md travis.yml prettierrc.js default.nix.md "
        ".prettierrc .eslintrc.json .yarn/cache/a.zip requirements.txt manage.py"
    ),
)
def test_what_does_not(path: str) -> None:
    assert obeyed_kind(path.split("/")) == ""


def test_secrets_by_directory() -> None:
    assert is_secret(["home", ".SSH", "config"])
    assert is_secret([".config", "gcloud", "x.db"])
    assert not is_secret(["gcloud", "deploy.py"])
    assert not is_secret([])


def test_device_names() -> None:
    assert is_device_name("NUL")
    assert is_device_name("com1.txt")
    assert not is_device_name("console.py")
    assert not is_device_name("com10")


def test_odd_names() -> None:
    assert [
        n
        for n in ("a.", "a ", "a\nb", "a\u200bb", "日本.md", "👩‍💻.txt", ".a", "a b")
        if has_unseen_characters(n)
    ] == [
        "a.",
        "a ",
        "a\nb",
        "a\u200bb",
    ]
