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
    effective_suffix,
    fold_name,
    has_unseen_characters,
    is_protected,
    is_secret,
    obeyed_kind,
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
    assert effective_suffix(name) == expected


def test_the_scripts_of_the_requirements() -> None:
    """Covers S4-82."""
    assert {".bat", ".sh", ".ps1"} <= EXECUTABLE_SUFFIXES
    assert ".exe" in BINARY_SUFFIXES
    safe = {".txt", ".md", ".py", ".json", ".yaml"}
    assert not safe & (EXECUTABLE_SUFFIXES | BINARY_SUFFIXES)


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
    ("path", "mode", "kind"),
    [
        # names that no list of tools and agents has
        (".nobody-knows-this", 0o644, "dot_name"),
        ("docs/.tool/rules/a.md", 0o644, "dot_name"),
        ("\u200c.Agent/x", None, "dot_name"),  # some file systems leave the first sign out
        ("scripts/release", 0o744, "program"),
        ("src/a.py", 0o601, "program"),
        ("sub/Makefile", 0o644, "build_file"),
        ("tests/CONFTEST.py", None, "build_file"),
        ("sitecustomize.py", 0o644, "build_file"),
        ("run.sh", 0o644, ""),  # nothing runs it that is not told its name
        ("AGENTS.md", 0o644, ""),
        ("src/makefile.md", 0o644, ""),
        ("a.b/c..d", 0o666, ""),
    ],
)
def test_what_other_programs_act_on(path: str, mode: int | None, kind: str) -> None:
    assert obeyed_kind(path.split("/"), mode) == kind


def test_secrets_by_directory() -> None:
    assert is_secret(["home", ".SSH", "config"])
    assert is_secret([".config", "gcloud", "x.db"])
    assert not is_secret(["gcloud", "deploy.py"])
    assert not is_secret([])


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
