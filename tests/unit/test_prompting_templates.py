from __future__ import annotations

import re
from pathlib import Path

import pytest
from figures import list_model_texts
from support.prompt_states import OPERATIONS, busy_state, compiler

from duckflow_tui.places import find_assets
from duckflow_tui.prompting.layers import LongMemory, main_values, session_values
from duckflow_tui.prompting.templates import Template, TemplateError, load_texts
from duckflow_tui.startup_facts import LANGUAGES
from duckflow_tui.state.decision import PromptPattern


def render(text: str, **values: str) -> str:
    return Template("t.md", text).render(values)


def test_values_with_braces_stay_as_they_are() -> None:
    """Covers S4-13."""
    hostile = "{goal} {0} {self.__class__} {{x}} %s ${HOME}"
    assert render("A: {name}\nB: {goal}", name=hostile, goal="g") == f"A: {hostile}\nB: g"


def test_json_in_a_template_needs_no_escapes() -> None:
    example = '{"a": {"ok": true}, "b": [{"c": "…"}]} {{…}}'
    assert render(example) == example


@pytest.mark.parametrize("mark", ["{nope}", "{name.upper}", "{name[0]}", "{name!r}", "{Name}"])
def test_an_unknown_field_is_an_error(mark: str) -> None:
    with pytest.raises(TemplateError, match=re.escape(f"t.md: no value for {mark}")):
        render(f"first\n{mark} second", name="x")


def test_comment_at_the_top_is_not_sent() -> None:
    assert render("<!-- why\nthis -->\nText <!-- stays -->") == "Text <!-- stays -->"


def test_what_is_empty_leaves_no_trace() -> None:
    text = "# One\nList:\n{a}\n\n# Two\n{b} of {c}\n\n# Three\nkept {a}\nkept"
    assert render(text, a="", b="1", c="") == "# Two\n1 of \n\n# Three\nkept"


def test_a_value_that_looks_like_a_heading_is_kept() -> None:
    assert render("{a}", a="# from a file\n\n\n\ntext") == "# from a file\n\n\n\ntext"


def test_a_value_that_is_not_given_is_an_error() -> None:
    with pytest.raises(TemplateError, match=r"t\.md: no value for \{b\}"):
        render("{a}{b}", a="1")


def test_a_folder_without_texts_and_a_file_that_is_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="there are no prompt files"):
        load_texts(tmp_path, "en")
    (tmp_path / "ja").mkdir()
    (tmp_path / "ja" / "review.md").write_bytes(b"\xff")
    with pytest.raises(TemplateError, match=r"ja/review\.md: cannot be read"):
        load_texts(tmp_path, "ja")


def test_a_name_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "a.md").write_text(":: reply.empty\none\n")
    (tmp_path / "en" / "b.md").write_text(":: reply.empty\ntwo\n")
    with pytest.raises(TemplateError, match=r"en/b\.md: reply\.empty stands twice"):
        load_texts(tmp_path, "en")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_begins_with_a_comment_that_names_its_headings(language: str) -> None:
    for path in sorted((find_assets("prompts") / language).glob("*.md")):
        text = path.read_text("utf-8")
        comment, _, body = text.partition("-->")
        assert comment.startswith("<!--"), path
        listed = " ".join(comment.split()).replace(" ", "")
        for heading in re.findall(r"^#+ (.+)$", body, re.MULTILINE):
            words = re.split(r"[,(（、]", heading)[0]
            assert words.replace(" ", "") in listed, f"{path}: {heading}"


def test_both_languages_tell_the_model_the_same_facts() -> None:
    """They have the same texts, with the same values."""
    english, japanese = (load_texts(find_assets("prompts"), name) for name in LANGUAGES)
    assert {name: text.fields for name, text in english.items()} == {
        name: text.fields for name, text in japanese.items()
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_base_and_main_files_use_every_field_that_the_state_fills(language: str) -> None:
    """Covers S4-79: a value that no file shows would be lost without a word."""
    texts = load_texts(find_assets("prompts"), language)
    values, lists = main_values(busy_state(), ())
    assert texts["main"].fields == values.keys() | lists.keys() | {"recovery", "overview", "mode"}
    values, lists = session_values(busy_state(), LongMemory(), ())
    assert texts["session"].fields == values.keys() | lists.keys() | {"at_hand", "project"}


WIRE_WORDS = re.compile(r"\b(?:[a-z]+_[a-z_]+|[A-Z]{4,}(?:_[A-Z]+)*)\b")


@pytest.mark.parametrize("name", ["format_json.md", "format_tools.md"])
def test_both_languages_describe_the_same_wire(name: str) -> None:
    folder = find_assets("prompts")
    words = [
        set(WIRE_WORDS.findall((folder / language / name).read_text("utf-8")))
        for language in LANGUAGES
    ]
    assert words[0] == words[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_operation_is_named_outside_the_registry(language: str) -> None:
    """Covers S2-25: with other operations registered, only those are in the prompt."""
    files = sorted((find_assets("prompts") / language).glob("*.md"))
    rooms = r"\b(?:file_ops|shell|git|plan_tool|task_tool|task_loop|memory|mcp)(?:\.|__)\w"
    for path in files:
        assert not re.search(rooms, path.read_text("utf-8")), path
    prompt = compiler(language).compile(
        busy_state(), OPERATIONS, pattern=PromptPattern.BASE_MAIN_SPECIALIZED
    )
    calls = set(re.findall(r"^- ([\w.]+)\(", prompt.formats["json"], re.MULTILINE))
    assert calls == {spec.name for spec in OPERATIONS}


def test_no_code_writes_what_a_model_reads() -> None:
    assert list_model_texts(("work",)) == []


def test_japanese_prompts_use_the_words_of_the_screen() -> None:
    """Models copy them into what the user reads."""
    other = re.compile(
        r"要求|段階|検査|覚え書き|別案|道具|端末|依頼|(?<!な)いま(?![すせし])|今[すせ]"
    )
    found = {
        path.name: other.findall(path.read_text(encoding="utf-8"))
        for path in (find_assets("prompts") / "ja").glob("*.md")
    }
    assert {name: words for name, words in found.items() if words} == {}
