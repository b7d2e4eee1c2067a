"""Translates calls of other agents' tools, on which models were trained, to our operations.

Tables map names and arguments; a call is translated only if it has one meaning.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar, cast

from duckflow_tui.llm.reply_json import NotStrict, parse_object
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.lenient import collect_texts, field_name, join_texts
from duckflow_tui.state.operations import OperationSpec

_V = TypeVar("_V")


#: What other tools' names may begin with.
_PREFIX: Final = re.compile(r"(?:functions|default_api|developer|container|tools)(?:\.|__|:)")


def bare_name(name: str) -> str:
    """Return a tool's name in lower-case letters and digits alone, without prefixes such as
    ``functions.``, so that ``ReadFile``, ``read-file`` and ``functions.read_file`` are one.
    """
    return re.sub(r"[\W_]", "", _PREFIX.sub("", name.strip().lower(), count=1))


def _bare_names(names: str) -> tuple[str, ...]:
    """Return the bare forms of names that are separated by spaces."""
    return tuple(map(bare_name, names.split()))


def _key_by_bare_name(names: str, value: _V) -> dict[str, _V]:
    """Return a table with this value for each of the names, which are separated by spaces."""
    return dict.fromkeys(_bare_names(names), value)


class _Row(NamedTuple):
    """Foreign calls that correspond to one operation. ``names``: their names, separated by spaces;
    ``args``: pairs such as ``file_path=path``, or ``output_mode=`` for an argument to discard;
    ``given``: arguments to add.
    """

    operation: str
    names: str
    args: str
    given: Mapping[str, object] = {}


_FILE: Final = (
    "file_path=path file=path filename=path filepath=path target_file=path absolute_path=path "
    "relative_path=path relative_workspace_path=path "
)
_FOLDER: Final = (
    "directory=path dir=path dir_path=path directory_path=path relative_workspace_path=path "
    "search_directory=path search_path=path "
)
_TABLE: Final = (
    _Row(
        "file_ops.read_file",
        "read read_file view view_file cat open_file open fs_read show_file",
        f"{_FILE} paths=path offset=start_line start=start_line end=end_line "
        "line_offset=start_line should_read_entire_file= mode= "
        "start_line_one_indexed=start_line end_line_one_indexed_inclusive=end_line encoding=",
    ),
    _Row(
        "file_ops.list_dir",
        "ls list list_dir list_directory list_files",
        f"{_FOLDER} max_depth=depth ignore= respect_git_ignore= file_filtering_options=",
    ),
    _Row(
        "file_ops.find_files",
        "glob find_files file_search find_by_name find_file find_path",
        f"{_FOLDER} pattern=glob glob_pattern=glob query=glob file_name=glob file_pattern=glob "
        "case_sensitive= respect_git_ignore= max_results=",
    ),
    _Row(
        "file_ops.search_text",
        "grep search_text grep_search search_file_content search_files search_dir ripgrep "
        "grep_files",
        f"{_FOLDER} query=pattern search_term=pattern include=glob include_pattern=glob "
        "file_pattern=glob -C=context -n= output_mode= head_limit= max_results= case_sensitive= "
        "is_regexp=regex is_regex=regex",
        given={"regex": True},
    ),
    _Row(
        "file_ops.write_file",
        "write write_file create_file create write_to_file save_file",
        f"{_FILE} contents=content file_text=content code_content=content text=content "
        "line_count= overwrite= empty_file=",
    ),
    _Row(
        "file_ops.edit_file",
        "edit edit_file replace str_replace multi_edit search_replace search_and_replace "
        "replace_in_file replace_string_in_file replace_file_content str_replace_file apply_diff "
        "edit_block",
        f"{_FILE} old_string=old new_string=new old_str=old new_str=new old_text=old new_text=new "
        "search=old find=old original=old before=old target_content=old replacement=new "
        "replace=new replace_with=new updated=new after=new replacement_content=new "
        "replace_all=all allow_multiple=all expected_replacements= instruction= instructions= "
        "replacements=edits replacement_chunks=edits edit=edits display_description=",
    ),
    _Row(
        "file_ops.move_file",
        "move_file rename_file mv",
        "from=source to=target old_path=source new_path=target destination=target",
    ),
    _Row("file_ops.delete_file", "delete_file remove_file rm", _FILE),
    _Row(
        "shell.run",
        "bash shell run_command run_terminal_cmd run_shell_command execute_command exec_command "
        "local_shell terminal execute_bash run_in_terminal run_bash exec shell_command",
        "cd=cwd cmd=command command_line=command script=command workdir=cwd working_directory=cwd "
        "working_dir=cwd directory=cwd dir_path=cwd timeout=timeout_s timeout_seconds=timeout_s "
        "is_background=background run_in_background=background requires_approval= justification= "
        "with_escalated_permissions= sandbox_permissions= is_input= login= "
        "yield_time_ms= max_output_tokens= blocking= safe_to_auto_run= restart= goal=",
    ),
)
_DISCARDED: Final = {"explanation": "", "description": "", "tool_summary": "", "security_risk": ""}

#: Operations by their bare names, here and in other tools.
FOREIGN_NAMES: Final = {
    name: row.operation for row in _TABLE for name in _bare_names(f"{row.operation} {row.names}")
}
_ROWS: Final = {row.operation: row for row in _TABLE}
_RENAMED: Final = {
    row.operation: dict(pair.split("=") for pair in row.args.split()) | _DISCARDED for row in _TABLE
}
#: The nearest of our operations for foreign tools without an exact counterpart, by bare names.
NEAREST: Final = {
    **_key_by_bare_name(
        "str_replace_editor str_replace_based_edit_tool text_editor file_editor apply_patch patch "
        "insert insert_content insert_edit_into_file notebook_edit multi_replace_string_in_file",
        "file_ops.edit_file",
    ),
    **_key_by_bare_name("codebase_search semantic_search", "file_ops.search_text"),
    **_key_by_bare_name("read_many_files", "file_ops.read_file"),
    **_key_by_bare_name("execute_ipython_cell", "shell.run"),
}

#: Editor tools of other agents whose argument ``command`` selects what they do.
_EDITOR_TOOLS: Final = _bare_names(
    "str_replace_editor str_replace_based_edit_tool text_editor file_editor"
)
_EDITOR_COMMANDS: Final = {
    "view": "read", "create": "write", "write": "write", "str_replace": "edit",
}  # fmt: skip
_LONGEST_TIMEOUT_S: Final = 1_800  # a greater value of ``timeout_s`` must be in milliseconds

#: Names that models give to the fields of a call that was written as an object.
_NAME_FIELDS: Final = (
    "operation", "name", "tool", "tool_name", "function", "function_name", "action"
)  # fmt: skip
_ARGUMENT_FIELDS: Final = (
    "args", "arguments", "parameters", "params", "input", "tool_input", "action_input"
)  # fmt: skip
#: Tools of other agents that say something of the work and do nothing: by bare name, the arguments
#: that hold it.
_THOUGHTS: Final = _key_by_bare_name("think thinking sequential_thinking", ("thought", "thoughts"))
_TODOS: Final = _key_by_bare_name(
    "todo_write update_plan write_todos update_todo_list task_tracker manage_todo_list "
    "set_todo_list",
    ("todos", "plan", "items", "todo_list", "task_list"),
)
_ENDS: Final = _key_by_bare_name(
    "attempt_completion finish submit final_answer complete_task task_complete",
    ("result", "message", "answer", "final_answer", "summary", "text", "content", "output"),
)
_QUESTIONS: Final = _key_by_bare_name(
    "ask_followup_question ask_user ask_user_question", ("question",)
)
#: Bare names of all tools that state something.
STATEMENTS: Final = (*_THOUGHTS, *_TODOS, *_ENDS, *_QUESTIONS)
_OPTIONS: Final = ("follow_up", "options", "choices")
_TODO_TEXTS: Final = ("content", "step", "title", "description", "task", "text", "name")


class TextCall(NamedTuple):
    """A call found in a text or a patch."""

    name: str
    arguments: JsonObject


def name_fields(written: JsonObject) -> JsonObject:
    """Return the fields of a call with its name as ``operation`` and its arguments as ``args``, if
    it has them in any usual form; other fields are unchanged.
    """
    inner: object = written.get("function")
    fields = {**written, **cast("JsonObject", inner)} if isinstance(inner, dict) else {**written}
    key, value = next(iter(fields.items()), ("", None))
    if len(fields) == 1 and key not in _ARGUMENT_FIELDS and isinstance(value, dict):
        return {"operation": key, "args": value}  # {"read_file": {"path": "a.py"}}
    named = (name for name in _NAME_FIELDS if isinstance(fields.get(name), str))
    if name := next(named, None):
        fields["operation"] = fields.pop(name)
    for name in _ARGUMENT_FIELDS:
        value = fields.get(name)
        if isinstance(value, dict) or str(value).lstrip().startswith("{"):
            fields["args"] = fields.pop(name)
            break
    return fields


def read_statement(name: str, args: JsonObject) -> JsonObject | None:
    """Return the decision fields that a call of a foreign tool states: a thought as ``rationale``,
    a to-do list as ``plan_brief``, the end of the work as ``reply`` with ``done``, or a question
    with ``pending_user``. None for any other call.
    """
    tool = bare_name(name)

    def find_value(arguments: Sequence[str]) -> object:
        """Return the first of these arguments that is given."""
        return next((args[key] for key in arguments if args.get(key) is not None), None)

    if tool in _THOUGHTS:
        return {"rationale": join_texts(find_value(_THOUGHTS[tool]))}
    if tool in _TODOS:
        todos = find_value(_TODOS[tool])
        entries = cast("list[object]", todos) if isinstance(todos, list) else [todos]
        return {"state_delta": {"plan_brief": [t for t in map(_describe_todo, entries) if t]}}
    if tool in _ENDS:
        return {"reply": join_texts(find_value(_ENDS[tool])), "next_step": "done"}
    if tool in _QUESTIONS:
        options = [text for key in _OPTIONS for text in collect_texts(args.get(key))]
        question = {"text": join_texts(find_value(_QUESTIONS[tool])), "options": options}
        return {"question": question, "next_step": "pending_user"}
    return None


def _describe_todo(entry: object) -> str:
    """Return the text of a to-do entry, with its state in front if it has one; empty without a
    text.
    """
    if not isinstance(entry, dict):
        return join_texts(entry)
    fields = cast("JsonObject", entry)
    text = join_texts(next((fields[key] for key in _TODO_TEXTS if key in fields), None))
    status = str(fields.get("status") or "")
    return f"[{status}] {text}" if status and text else text


def foreign_names(operations: Iterable[OperationSpec]) -> dict[str, OperationSpec]:
    """Map bare names of other tools to these operations, without operations of which another ends
    in the same name.
    """
    own = {spec.name: spec for spec in operations}
    ends = Counter(bare_name(name.rpartition(".")[2]) for name in own)
    return {
        name: own[ours] for name, ours in FOREIGN_NAMES.items() if ours in own and ends[name] < 2
    }


def read_editor(name: str, args: JsonObject) -> str:
    """Return the tool name that an editor tool's ``command`` means, and remove that argument from
    ``args``. Any other name, or one with an unknown command, is returned unchanged.
    """
    if bare_name(name) not in _EDITOR_TOOLS or "command" not in args:
        return name
    meant = _EDITOR_COMMANDS.get(str(args["command"]))
    if meant is None:
        return name
    del args["command"]
    return meant


def read_arguments(spec: OperationSpec, called: str, args: JsonObject) -> JsonObject:
    """Translate the arguments of a call to our names and types where that is unambiguous.
    ``called`` is the name by which the model called it. Other arguments are kept, for the
    operation to reject.
    """
    own: Mapping[str, JsonObject] = spec.parameters.get("properties") or {}
    row, renamed = _ROWS.get(spec.name), _RENAMED.get(spec.name, _DISCARDED)
    args = _unnest_arguments(args, own)
    if row is not None and bare_name(called) in _bare_names(row.names):
        args = {**row.given, **args}
    read = _rename_arguments(_convert_units(args, own), own, renamed)
    if isinstance(words := read.get("command"), list):
        read["command"] = _join_command([str(word) for word in cast("list[object]", words)])
    _convert_line_range(read, own)
    return _rename_in_items(read, own, renamed)


def _unnest_arguments(args: JsonObject, own: Mapping[str, JsonObject]) -> JsonObject:
    """Unwrap arguments that stand inside a single one, as in ``{"arguments": {…}}``, also as JSON
    text or beside the name of the call.
    """
    names = args.keys() - own.keys() - {*_NAME_FIELDS}
    key = next(iter(names), "")
    inner: object = args.get(key)
    if len(names) > 1 or key not in _ARGUMENT_FIELDS or own.keys() & args.keys():
        return args
    if isinstance(inner, str):
        with suppress(NotStrict):
            inner = parse_object(inner)
    return cast("JsonObject", inner) if isinstance(inner, dict) else args


def _convert_units(args: JsonObject, own: Mapping[str, JsonObject]) -> JsonObject:
    """Convert foreign arguments to ours: milliseconds to seconds, ``regex`` to ``pattern``,
    ``recursive`` to ``depth``.
    """
    made = {**args}
    for name in ("timeout_ms", "timeout", "timeout_s"):
        value: object = args.get(name)
        if isinstance(value, int | float) and "timeout_s" in own:
            in_ms = name == "timeout_ms" or value > _LONGEST_TIMEOUT_S
            made["timeout_s"] = value / 1000 if in_ms else value
            if name != "timeout_s":
                del made[name]
    if isinstance(args.get("regex"), str) and "pattern" not in args:
        made |= {"pattern": args["regex"], "regex": True}
    if isinstance(args.get("recursive"), bool) and "depth" in own:
        made["depth"] = own["depth"].get("maximum", 10) if made.pop("recursive") else 1
    return made


def _rename_in_items(
    args: JsonObject, own: Mapping[str, JsonObject], renamed: Mapping[str, str]
) -> JsonObject:
    """Rename fields of objects in list arguments, of which a single object counts as one of a list.
    If a list is missing, make it from fields of a single item among the other arguments.
    """
    for name, member in own.items():
        of_items: JsonObject = member.get("items") or {}
        inner: Mapping[str, JsonObject] = of_items.get("properties") or {}
        items: object = args.get(name)
        items = [cast("object", items)] if isinstance(items, dict) else items
        if inner and isinstance(items, list):
            args[name] = [
                _rename_arguments(cast("JsonObject", item), inner, renamed)
                if isinstance(item, dict)
                else item
                for item in cast("list[object]", items)
            ]
        elif inner and items is None:
            one = _rename_arguments(args, inner, renamed)
            if found := {key: one[key] for key in one if key in inner and key not in own}:
                args = {key: value for key, value in one.items() if key not in found}
                args[name] = [found]
    return args


def _rename_arguments(
    args: JsonObject, own: Mapping[str, JsonObject], renamed: Mapping[str, str]
) -> JsonObject:
    """Rename arguments to our names; drop those to discard, keep unknown ones. An argument whose
    new name is given too keeps its own, unless both have the same value.
    """
    read: JsonObject = {}
    for given, value in args.items():
        name = given if given in own or given in renamed else field_name(given)
        ours = renamed.get(name) if name not in own else name
        if ours == "":
            continue
        ours = ours if ours is not None and ours in own else given
        if ours == given or ours not in args:
            read[ours] = value
        elif args[ours] != value:
            read[given] = value  # it is unclear which of the two is meant
    return read


def _convert_line_range(args: JsonObject, own: Mapping[str, JsonObject]) -> None:
    """Replace ``limit`` or ``view_range`` by ``start_line`` and ``end_line``, in place, if the
    operation has these arguments.
    """
    if not {"start_line", "end_line"} <= own.keys():
        return
    limit, line_range = args.get("limit"), args.get("view_range")
    if isinstance(limit, int):
        start = args.setdefault("start_line", 1)
        if isinstance(start, int):
            args["start_line"] = max(start, 1)
            args["end_line"] = max(start, 1) + args.pop("limit") - 1
    if isinstance(line_range, list) and len(cast("list[object]", line_range)) == 2:
        args["start_line"], end = args.pop("view_range")
        if end != -1:
            args["end_line"] = end


def _join_command(words: Sequence[str]) -> str:
    """Join words to a shell command, quoted; for a shell with ``-c LINE`` return only LINE."""
    if len(words) == 3 and words[0] in ("bash", "sh", "zsh") and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)
