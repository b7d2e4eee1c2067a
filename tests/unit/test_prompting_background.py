"""What is told of files that were read, to a model that did not read them."""

from __future__ import annotations

from typing import Any

from support.prompt_states import Talk

from duckflow_tui.prompting.background import READ_FILE, format_files, list_files_read
from duckflow_tui.prompting.budget import ScriptCounter
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.goal import TaskObjective
from duckflow_tui.state.operations import FileChange, OperationResult, Outcome

COUNT = ScriptCounter().count
CODE = "import os\n\nclass Basket:\n    def total(self):\n        return 1\n"


class Reads(Talk):
    """A conversation that reads and changes files."""

    def call(
        self,
        operation: str = READ_FILE,
        text: str = CODE,
        *,
        changes: tuple[FileChange, ...] = (),
        outcome: Outcome = Outcome.OK,
        step_id: str = "",
        **args: Any,
    ) -> None:
        n = self._next()
        result = OperationResult(outcome=outcome, text=text, changes=changes)
        self.state.messages.append(
            OperationMessage(
                call_id=f"call_{n}",
                operation=operation,
                args=args,
                reasoning="it is needed",
                result=result,
                step_id=step_id,
                at=float(n),
            )
        )

    def told(self, tokens: int = 10_000, about: str = "", but_of: str = "") -> str:
        return format_files(list_files_read(self.state, about, but_of=but_of), tokens, COUNT)


def test_a_file_is_told_whole_once_and_as_it_was_read_last() -> None:
    talk = Reads()
    talk.call(path="a.py", text="old")
    talk.call(path="b.py", text="other")
    talk.call(path="./a.py", text="new")
    assert talk.told() == "== a.py\nnew\n== b.py\nother"


def test_lines_of_a_file_stand_for_themselves_until_it_is_read_whole() -> None:
    talk = Reads()
    talk.call(path="a, b.py", text="one", start_line=1, end_line=5)
    talk.call(path="a, b.py", text="two", start_line=6)
    assert talk.told() == "== a, b.py, lines 6–\ntwo\n== a, b.py, lines 1–5\none"
    talk.call(path="a, b.py", text="all")
    assert talk.told() == "== a, b.py\nall"


def test_what_failed_or_is_no_file_or_belongs_to_an_earlier_request_is_left_out() -> None:
    talk = Reads()
    talk.call(path="early.py")
    talk.state.objective = TaskObjective(objective_id="obj_1", original_query="go", created_at=2.0)
    talk.call("file_ops.list_dir", path="src")
    talk.call(path="gone.py", outcome=Outcome.ERROR)
    talk.call(path="result:call_1")
    assert talk.told() == ""


def test_of_a_file_that_was_changed_since_only_its_outline_is_told() -> None:
    talk = Reads()
    talk.call(path="a.py")
    change = FileChange(path="a.py", kind="modify", added=1, removed=1)
    talk.call("file_ops.edit_file", "changed", path="a.py", changes=(change,))
    told = talk.told()
    assert told.startswith("== a.py, changed since it was read")
    assert "class Basket:\n    def total(self):" in told
    assert "import os" not in told
    talk.call(path="a.py")
    assert "import os" in talk.told()


def test_with_less_room_what_the_work_names_is_whole_and_the_rest_an_outline_or_a_name() -> None:
    talk = Reads()
    for name in ("src/a.py", "src/b.py", "src/c.py", "src/d.py"):
        talk.call(path=name, text=CODE + "        # a comment that fills the file\n" * 40)
    whole = COUNT(talk.told(about="b.py")) // 4
    told = talk.told(int(whole * 1.2), about="mend the total in b.py")
    assert told.startswith("== src/b.py\nimport os")
    assert "== src/d.py, outline only\nclass Basket:\n    def total(self):" in told
    assert talk.told(5) == "== also read: src/d.py, src/c.py, src/b.py, src/a.py"


def test_a_step_is_told_what_was_read_before_it_began() -> None:
    talk = Reads()
    talk.call(path="a.py", text="before")
    talk.call(path="b.py", text="its own", step_id="step_1")
    talk.call(path="c.py", text="after")
    assert talk.told(but_of="step_1") == "== a.py\nbefore"
