"""Cards and reports in the chat: what was asked and answered, and how a step ended."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import visible, visible_line
from duckflow_tui.state.gates import CardAnswer, CardMessage
from duckflow_tui.state.plan import StepReport
from duckflow_tui.ui.panes.blocks import Block, Group, Look, barred, fold_sign, framed
from duckflow_tui.ui.panes.card_rows import card_heading, card_rows, card_subject, counts_words
from duckflow_tui.ui.panes.consult_rows import told_on
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import PLAIN, Piece, Row, fit, ink, pad, prefixed, rows_of
from duckflow_tui.words.catalogue import Catalogue

_MARKS: Final = {"completed": "✓", "partial": "◐", "failed": "✗", "stopped": "■"}
_LABEL: Final = 8  # cells of the column of labels, where there is room for one
_SHOWN: Final = 40  # rows of a card that was answered
_FILES: Final = 6  # files named; the others are counted


class StepBlock(Block):
    """``step 2 · Game loop``: from here on the items belong to that step."""

    group: Group = "head"

    def __init__(self, number: str, name: str, step_id: str) -> None:
        super().__init__()
        self.number = number
        self.name = name
        self.step_id = step_id

    def draw(self, look: Look) -> list[Row]:
        said = look.words("transcript.step", number=self.number, name=visible_line(self.name))
        text = fit(said, look.text_width)
        rest = look.text_width - cell_len(text) - 1
        rule = f" {'─' * rest}" if rest > 0 else ""
        faint = ink(look.palette.faint)
        return framed([[Segment(text, ink(look.palette.quiet)), Segment(rule, faint)]], look)

    @property
    def said(self) -> str:
        return self.name


class QuestionBlock(Block):
    """``↳ how far is it?``: which question the answer below belongs to."""

    group: Group = "head"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def draw(self, look: Look) -> list[Row]:
        asked = fit(visible_line(self.text.strip()), look.text_width - 2)
        return framed(
            [[Segment(asked, ink(look.palette.quiet))]], look, ("↳", ink(look.palette.faint))
        )


class CardBlock(Block):
    """A card that was answered: one row, what it showed behind it."""

    group: Group = "row"
    foldable = True

    def __init__(self, message: CardMessage) -> None:
        super().__init__()
        self.message = message

    def draw(self, look: Look) -> list[Row]:
        message, palette = self.message, look.palette
        heading = card_heading(message.card, message.plan, look.words)
        subject = card_subject(message.card, message.plan, look.words)
        sign = fold_sign(self, look)
        head = Segment(f"{heading}  ", ink(palette.accent))
        answer = answer_words(message.answer, look.words)
        room = look.text_width - sign.cell_length
        spare = room - head.cell_length - cell_len(subject) - 2
        row: Row = [sign, Segment(fit(head.text, room), head.style)]
        row.append(Segment(fit(subject, max(0, room - head.cell_length)), ink(palette.text)))
        below: list[Row] = []
        if cell_len(answer) <= spare:
            row += [Segment("  ", PLAIN), Segment(answer, ink(palette.quiet))]
        else:
            said = rows_of([(answer, ink(palette.quiet))], look.text_width - 4)
            below = prefixed(said, ("  ↳ ", ink(palette.faint)))
        rows = [row, *below]
        if self.opened:
            rows += self._details(look)
        return framed(rows, look)

    def _details(self, look: Look) -> list[Row]:
        message, palette = self.message, look.palette
        colours = {"added": palette.good, "removed": palette.bad, "warning": palette.bad}
        headings = colours | {"notice": palette.accent, "ai": palette.ai}
        rows: list[Row] = []
        for shown in card_rows(message.card, message.plan, look.words):
            colour = colours.get(shown.tone, palette.quiet)
            head = headings.get(shown.heading, palette.faint)
            width, says = look.text_width - 4, shown.says and bool(shown.label)
            rows += _labelled(shown.label, shown.text, look, width, colour, says=says, head=head)
        hidden = len(rows) - _SHOWN
        if hidden > 1:
            more = look.words("transcript.more_lines", count=f"{hidden:,}")
            rows = [*rows[:_SHOWN], [Segment(more, ink(palette.faint))]]
        return barred(rows, look)

    @property
    def said(self) -> str:
        card, plan = self.message.card, self.message.plan
        steps = [f"{step.name}\n{step.description}" for step in plan.steps] if plan else []
        subject = card_subject(card, plan, Catalogue())
        return "\n".join((subject, self.message.answer.text, *steps, *told_on(card)))


class ReportBlock(Block):
    """How a step ended: figures of the app, words of the model marked as such."""

    def __init__(self, report: StepReport, number: str) -> None:
        super().__init__()
        self.report = report
        self.number = number

    def draw(self, look: Look) -> list[Row]:
        report, palette, words = self.report, look.palette, look.words
        colours = {"completed": palette.good, "partial": palette.accent, "failed": palette.bad}
        colour = colours.get(report.status, palette.quiet)
        heading = words(f"card.title.report.{report.status}", number=self.number)
        left: Row = [
            Segment(f"{heading}  ", ink(colour)),
            Segment(visible_line(report.step_name), ink(palette.text)),
        ]
        right: Row = [Segment(f" {counts_words(report, words)}", ink(palette.faint))]
        width = look.text_width
        rows: list[Row]
        if sum(s.cell_length for s in (*left, *right)) <= width:
            rows = [two_sided(left, right, width)]
        else:
            rows = [two_sided(left, [], width)]
            rows += rows_of([(counts_words(report, words), right[0].style or PLAIN)], width)
        files = [visible_line(path) for path in report.files_changed]
        if len(files) > _FILES:
            files = [*files[:_FILES], f"+{len(files) - _FILES}"]
        if files:
            rows += _labelled(words("card.made"), ", ".join(files), look, width, palette.quiet)
        for name in ("summary", "cause", "next"):
            text = report.next_action if name == "next" else getattr(report, name)
            label = words(f"card.{name}")
            if name == "cause" and report.told is not None:
                rows += _labelled(label, words.told(report.told), look, width, palette.quiet)
            elif text.strip():
                said = visible(text.strip())
                rows += _labelled(label, said, look, width, palette.quiet, says=True)
        return framed(rows, look, (_MARKS[report.status], ink(colour, bold=True)))

    @property
    def said(self) -> str:
        report = self.report
        words = (report.step_name, report.summary, report.cause, report.next_action)
        return "\n".join((*words, *report.files_changed))


def answer_words(answer: CardAnswer, words: Catalogue) -> str:
    """What the user answered, with the words that went with it."""
    text = answer.text.strip()
    key = f"card.answered.{answer.action}"
    because = f"{key}_because"
    return words(because, text=text) if text and words.has(because) else words(key)


def _labelled(
    label: str,
    text: str,
    look: Look,
    width: int,
    colour: str,
    *,
    says: bool = False,
    head: str = "",
) -> list[Row]:
    lead = pad(fit(label, 12), _LABEL if width >= 40 else 0)
    name: Piece = (f"{lead} " if lead else "", ink(head or look.palette.faint))
    body: list[Piece] = [(text, ink(colour))]
    if says:
        body.insert(0, (f"{look.words('gate.says')} ", ink(look.palette.ai, italic=True)))
    return prefixed(rows_of(body, max(1, width - cell_len(name[0]))), name)
