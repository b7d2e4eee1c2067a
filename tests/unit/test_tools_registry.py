"""The registry is the one source of names, schemas and effects."""

from __future__ import annotations

import pytest
from pydantic import Field, ValidationError
from support.model_words import WORDS

from duckflow_tui.llm.decision_reading import find_nearest_names
from duckflow_tui.safety.paths import Place
from duckflow_tui.state.operations import Effect
from duckflow_tui.tools.operation import (
    Arguments,
    DuplicateOperation,
    Operation,
    Output,
    Registry,
    ToolContext,
    Work,
    argument_problems,
    find_placeholders,
)


class Part(Arguments):
    """Words for programmers."""

    size: int | None = Field(default=None, description="How\n    big.")


class Sample(Arguments):
    """Words for programmers."""

    title: str = Field(description="A field of that name.")
    parts: list[Part] = Field(min_length=1, description="Its parts.")


async def prepare(args: Sample, places: tuple[Place, ...], context: ToolContext) -> Work:
    async def run() -> Output:
        return Output("")

    return Work(run)


def operation(name: str) -> Operation[Sample]:
    return Operation(
        name=name,
        summary="Does it.",
        effect=Effect.READ,
        arguments=Sample,
        paths=lambda args: (),
        prepare=prepare,
    )


def test_a_name_is_registered_once() -> None:
    """Covers S2-25."""
    with pytest.raises(DuplicateOperation, match=r"sample\.do"):
        Registry([operation("sample.do"), operation("sample.do")])


def test_a_schema_is_flat_and_keeps_a_field_called_title() -> None:
    schema = operation("sample.do").spec.parameters
    assert schema == {
        "type": "object",
        "required": ["title", "parts"],
        "properties": {
            "title": {"type": "string", "description": "A field of that name."},
            "parts": {
                "type": "array",
                "description": "Its parts.",
                "items": {
                    "type": "object",
                    "properties": {"size": {"type": "integer", "description": "How big."}},
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("write", ("file_ops.write_file",)),  # a part of its last word is enough
        ("fs.edit_file", ("file_ops.edit_file", "file_ops.write_file")),
        ("filesystem_service.status", ("git.status", "mcp.shop.status")),
        ("file_ops.", ()),
        ("paint", ()),
    ],
)
def test_names_are_near_by_their_last_word_or_a_part_of_it(
    name: str, near: tuple[str, ...]
) -> None:
    known = ["file_ops.write_file", "file_ops.edit_file", "git.status", "mcp.shop.status"]
    assert find_nearest_names(name, known) == near


def test_wrong_arguments_are_named_one_by_one() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"parts": [{"size": "3"}], "colour": 1})
    words = list(map(WORDS, argument_problems(caught.value)))
    assert "title: is required" in words
    assert "parts.0.size: input should be a valid integer (given: '3')" in words
    assert "colour: there is no such argument" in words


@pytest.mark.parametrize(
    "value",
    [
        "{{previous_result}}",
        "{{city}}",
        "{{get_ip_location.city}}",
        "<city from step 1>",
        "{{Output}}",
        "ref:task_2",
        "${previous.path}",
        "<result_of_task_1>",
        "{{ previous_result.items[0] }}",
        "${step1.city}",
        "{{task_read.output}}",
        "${last_output}",
        "{{step}}",
        "ref: previous_result",
    ],
)
def test_references_are_found_in_any_depth(value: str) -> None:
    """Covers S3-18."""
    assert find_placeholders({"a": [{"b": value}]}, frozenset()) != []


@pytest.mark.parametrize(
    "value",
    [
        *("Tokyo", "150", "a{b}c", "$HOME/x", "refs/heads", "{}", "{x}"),
        *(
            "{{cookiecutter.slug}}/setup.py",
            "render {{ user.name }} as HTML",
            "copy {{step2.result}} there",
            "src/{{ task_1.path }}",
            "<div>from here</div>",
            "${CI}",
            "templates/{{action}}.html",
            "{{ task_name }}/{{step}}.md",
            "show {{ task.title }} and {{ result }} in the page",
            "{{previous_url}} {{previous}}",
            "${task_dir}/out",
            "ref: refs/heads/main",
            "Ref: the ticket about braces",
            "{{ steps }} of {{output_dir}}",
        ),
    ],
)
def test_values_are_no_references(value: str) -> None:
    """Covers S3-18."""
    assert find_placeholders({"a": value}, frozenset()) == []


@pytest.mark.parametrize(
    ("args", "content", "found"),
    [
        *(({name: "{{city}}"}, (), []) for name in ("content", "pattern", "query", "sql")),
        ({"place": "{{city}}"}, (), ["place: {{city}}"]),
        ({"edits": [{"old": "{{ name }}", "new": "{{step}}"}]}, ("old", "new"), []),
    ],
)
def test_in_contents_patterns_and_queries_braces_are_text(
    args: dict[str, object], content: tuple[str, ...], found: list[str]
) -> None:
    """Covers S3-18."""
    assert find_placeholders(args, frozenset(content)) == found
