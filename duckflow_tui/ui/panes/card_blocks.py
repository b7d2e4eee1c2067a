"""Blocks of the chat for steps, answered cards, reports, reviews and further attempts."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.segment import Segment

from duckflow_tui.safety.safe_text import make_visible, visible_line
from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.gates import TELL, CardAnswer, CardKind, CardMessage
from duckflow_tui.state.goal import (
    AttemptMessage,
    Evidence,
    RequirementItem,
    ReviewMessage,
    SatisfactionEvaluation,
    is_outdated,
)
from duckflow_tui.state.plan import StepReport
from duckflow_tui.ui.panes.blocks import (
    Block,
    Group,
    Look,
    bar_rows,
    fold_sign,
    frame_rows,
    labelled_rows,
)
from duckflow_tui.ui.panes.card_words import (
    card_heading,
    card_rows,
    card_subject,
    counts_words,
)
from duckflow_tui.ui.panes.goal import MARKS, mark_colour
from duckflow_tui.ui.panes.operation_blocks import shorten_rows
from duckflow_tui.ui.panes.rows import two_sided
from duckflow_tui.ui.panes.strips import PLAIN, Piece, Row, fit, ink, prefix_rows, rows_of
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import lack_words, verdict_words

_MARKS: Final = {"completed": "✓", "partial": "◐", "failed": "✗", "stopped": "■"}
_SHOWN: Final = 40  # rows of a card that was answered
_FILES: Final = 6  # files named; the others are counted


class StepBlock(Block):
    """A rule ``step 2 · Game loop`` above the items of a plan's step."""

    group: Group = "head"

    def __init__(self, number: str, name: str, step_id: str) -> None:
        super().__init__()
        self.number = number
        self.name = name
        self.step_id = step_id

    def draw_rows(self, look: Look) -> list[Row]:
        said = look.words("transcript.step", number=self.number, name=visible_line(self.name))
        text = fit(said, look.text_width)
        rest = look.text_width - cell_len(text) - 1
        rule = f" {'─' * rest}" if rest > 0 else ""
        faint = ink(look.palette.faint)
        return frame_rows([[Segment(text, ink(look.palette.quiet)), Segment(rule, faint)]], look)


class AsideQuestionBlock(Block):
    """A line ``↳ how far is it?`` with the question that the answer below belongs to."""

    group: Group = "head"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def draw_rows(self, look: Look) -> list[Row]:
        asked = fit(visible_line(self.text.strip()), look.text_width - 2)
        return frame_rows(
            [[Segment(asked, ink(look.palette.quiet))]], look, ("↳", ink(look.palette.faint))
        )


class CardBlock(Block):
    """An answered card on one row; unfolded it shows the card's rows."""

    group: Group = "row"
    foldable = True

    def __init__(self, message: CardMessage) -> None:
        super().__init__()
        self.message = message

    def draw_rows(self, look: Look) -> list[Row]:
        message, palette = self.message, look.palette
        if message.card.kind is CardKind.QUESTION:  # the reply above holds the question
            heading = look.words("card.title.answered")
        else:
            heading = card_heading(message.card, message.plan, look.words)
        subject = card_subject(message.card, message.plan, look.words)
        sign = fold_sign(self, look)
        head = Segment(f"{heading}  ", ink(palette.accent))
        answer = answer_words(message.answer, look.words)
        chosen = next((o for o in message.card.options if o.action == message.answer.action), None)
        if message.card.kind in (CardKind.QUESTION, CardKind.SERVER) and chosen is not None:
            own = chosen.label or (message.answer.text if chosen == TELL else "")
            answer = visible_line(own) or answer
        room = look.text_width - sign.cell_length
        spare = room - head.cell_length - cell_len(subject) - 2
        row: Row = [sign, Segment(fit(head.text, room), head.style)]
        row.append(Segment(fit(subject, max(0, room - head.cell_length)), ink(palette.text)))
        below: list[Row] = []
        if cell_len(answer) <= spare:
            gap = "  " if subject else ""
            row += [Segment(gap, PLAIN), Segment(answer, ink(palette.quiet))]
        else:
            said = rows_of([(answer, ink(palette.quiet))], look.text_width - 4)
            below = prefix_rows(said, ("  ↳ ", ink(palette.faint)))
        rows = [row, *below]
        if self.opened:
            rows += self._detail_rows(look)
        return frame_rows(rows, look)

    def _detail_rows(self, look: Look) -> list[Row]:
        """Return the card's rows, at most 40."""
        message, palette = self.message, look.palette
        colours = {"added": palette.good, "removed": palette.bad, "warning": palette.bad}
        headings = colours | {"notice": palette.accent, "ai": palette.ai}
        rows: list[Row] = []
        for shown in card_rows(message.card, message.plan, look.words):
            colour = colours.get(shown.tone, palette.quiet)
            head = headings.get(shown.heading, palette.faint)
            width, says = look.text_width - 4, shown.says and bool(shown.label)
            rows += labelled_rows(
                shown.label,
                shown.text,
                look,
                width,
                colour=colour,
                label_colour=head,
                by_model=says,
            )
        hidden = len(rows) - _SHOWN
        if hidden > 1:
            more = look.words("transcript.more_lines", count=f"{hidden:,}")
            rows = [*rows[:_SHOWN], [Segment(more, ink(palette.quiet))]]
        return bar_rows(rows, look)


class ReportBlock(Block):
    """The report of a step: figures from the app, the model's words marked as such."""

    def __init__(self, report: StepReport, number: str, *, repeats: bool = False) -> None:
        """``repeats``: the summary repeats the text right above, and is left out."""
        super().__init__()
        self.report = report
        self.number = number
        self.repeats = repeats
        self.asked = False  # the open card says all but the heading

    def follow_state(self, state: AgentState) -> bool:
        """Show only the heading while the report's card is open; return whether that changed."""
        before = self.asked
        self.asked = any(card.subject == self.report.report_id for card in state.cards)
        return self.asked is not before

    def draw_rows(self, look: Look) -> list[Row]:
        """Return heading, figures, files, summary, cause and next action; only the heading while
        the report's card is open.
        """
        report, palette, words = self.report, look.palette, look.words
        colours = {"completed": palette.good, "partial": palette.accent, "failed": palette.bad}
        colour = colours.get(report.status, palette.quiet)
        heading = words(f"card.title.report.{report.status}", number=self.number)
        left: Row = [
            Segment(f"{heading}  ", ink(colour)),
            Segment(visible_line(report.step_name), ink(palette.text)),
        ]
        if self.asked:
            row = two_sided(left, [], look.text_width)
            return frame_rows([row], look, (_MARKS[report.status], ink(colour, bold=True)))
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
            rows += labelled_rows(words("card.made"), ", ".join(files), look, width)
        for name in ("summary", "cause", "next"):
            text = report.next_action if name == "next" else getattr(report, name)
            label = words(f"card.{name}")
            if name == "summary" and self.repeats:
                continue
            if name == "cause" and report.told is not None:
                rows += labelled_rows(label, words.localize(report.told), look, width)
            elif text.strip():
                said = make_visible(text.strip())
                rows += labelled_rows(label, said, look, width, by_model=True)
        return frame_rows(rows, look, (_MARKS[report.status], ink(colour, bold=True)))


def answer_words(answer: CardAnswer, words: Catalogue) -> str:
    """Return the user's answer to a card, with its text."""
    text = answer.full_text
    key = f"card.answered.{answer.action}"
    because = f"{key}_because"
    return words(because, text=text) if text and words.has(because) else words(key)


_EXCERPT: Final = (4, 2)  # rows of an excerpt, from its beginning and its end


class ReviewBlock(Block):
    """A review's verdict in one line, as ``Done: 2 of 2, the tests pass``; unfolded it shows the
    evidence.
    """

    group: Group = "row"
    foldable = True

    def __init__(self, message: ReviewMessage) -> None:
        super().__init__()
        self.review = message.review
        self.outdated = False  # files changed since

    def follow_state(self, state: AgentState) -> bool:
        """Note whether files changed since the review; return whether that changed."""
        before = self.outdated
        self.outdated = is_outdated(state, self.review)
        return self.outdated is not before

    def draw_rows(self, look: Look) -> list[Row]:
        palette, sign = look.palette, fold_sign(self, look)
        colour = {
            "done": palette.good,
            "partly": palette.accent,
            "unchecked": palette.accent,
            "failed": palette.bad,
        }.get(self.review.verdict, palette.text)
        colour = palette.quiet if self.outdated else colour
        said = visible_line(verdict_words(self.review, look.words, outdated=self.outdated))
        room = max(1, look.text_width - sign.cell_length)
        rows: list[Row] = [[sign, Segment(fit(said, room), ink(colour))]]
        if self.opened:
            rows += self._detail_rows(look)
        return frame_rows(rows, look)

    def _detail_rows(self, look: Look) -> list[Row]:
        """Return score, requirements with evidence, and remarks of the review."""
        review, words, palette = self.review, look.words, look.palette
        width = max(1, look.text_width - 4)
        figures = {"score": f"{review.score:.2f}", "number": review.attempt}
        said = words("review.score", **figures, limit=review.max_attempts)
        rows = rows_of([(said, ink(palette.quiet))], width)
        for item in review.items:
            rows += _item_rows(item, look, width)
        requirements = {i.requirement_id: visible_line(i.requirement) for i in review.items}
        for key, label, names, colour in (
            ("overruled", "veto", review.overruled, palette.bad),
            ("wrong_check", "check", review.wrong_checks, palette.accent),
            ("not_run", "unchecked", review.unchecked, palette.accent),
        ):
            for name in names:
                text = words(f"review.{key}", what=requirements.get(name, visible_line(name)))
                rows += _review_rows(label, text, look, width, colour=colour)
        for item in review.missing:
            text = visible_line(lack_words(item.what.strip(), words))
            rows += _review_rows("missing", text, look, width, colour=palette.text)
        if review.unanswered:
            text = words("review.unanswered")
            rows += _review_rows("note", text, look, width, colour=palette.bad)
        if review.evaluation is not None:
            rows += self._judge_rows(review.evaluation, look, width)
        return bar_rows(rows, look)

    def _judge_rows(self, evaluation: SatisfactionEvaluation, look: Look, width: int) -> list[Row]:
        """Return the judge's words: verdict and grade, remarks, suggestions."""
        words = look.words
        rows: list[Row] = []
        told: list[str] = []
        if evaluation.verdict is not None:
            told.append(words(f"review.verdicts.{evaluation.verdict}"))
        if evaluation.grade is not None:
            told.append(words(f"review.grades.{evaluation.grade}"))
        if told:
            text = " · ".join(told)
            rows += _review_rows("verdict", text, look, width)
        for label, texts in (
            ("remark", self.review.remarks),
            ("suggestion", evaluation.suggestions),
        ):
            for text in texts:
                rows += _review_rows(label, text, look, width, by_model=True)
        if evaluation.quality_assessment.strip():
            text = evaluation.quality_assessment
            rows += _review_rows("quality", text, look, width, by_model=True)
        return rows


class AttemptBlock(Block):
    """A further attempt as ``Attempt 2 of 3`` with its strategy; unfolded it shows steps,
    constraints and strategies to avoid.
    """

    group: Group = "row"
    foldable = True

    def __init__(self, message: AttemptMessage) -> None:
        super().__init__()
        self.message = message

    def draw_rows(self, look: Look) -> list[Row]:
        message, palette, words = self.message, look.palette, look.words
        title = words("review.attempt", number=message.attempt, limit=message.max_attempts)
        strategy = visible_line(message.plan.strategy.strip())
        sign = fold_sign(self, look)
        row: Row = [sign, Segment(fit(title, look.text_width - 2), ink(palette.ai, bold=True))]
        says = f"{words('gate.says')} "
        used = sum(segment.cell_length for segment in row) + 2
        rows = [row]
        model = Segment(says, ink(palette.ai, italic=True))
        if not strategy:
            pass
        elif used + cell_len(says) + cell_len(strategy) <= look.text_width:
            rows = [[*row, Segment("  ", PLAIN), model, Segment(strategy, ink(palette.text))]]
        else:
            pieces = [(says, ink(palette.ai, italic=True)), (strategy, ink(palette.text))]
            below = rows_of(pieces, max(1, look.text_width - 4))
            rows += prefix_rows(below, ("  ↳ ", ink(palette.faint)))
        if self.opened:
            rows += self._detail_rows(look)
        return frame_rows(rows, look)

    def _detail_rows(self, look: Look) -> list[Row]:
        """Return steps, constraints and strategies to avoid."""
        plan, words = self.message.plan, look.words
        width = max(1, look.text_width - 4)
        rows: list[Row] = []
        for name, values in (
            ("steps", plan.steps),
            ("constraints", plan.constraints),
            ("avoid", plan.avoid_strategies),
        ):
            for number, value in enumerate(values):
                rows += _review_rows("" if number else name, value, look, width)
        if not rows:
            rows = [[Segment(words("review.no_details"), ink(look.palette.faint))]]
        return bar_rows(rows, look)


# --- parts ----------------------------------------------------------------------------------------


def _item_rows(item: RequirementItem, look: Look, width: int) -> list[Row]:
    """Return the rows of a reviewed requirement with its evidence."""
    palette, words = look.palette, look.words
    score = f"{item.satisfaction_level:.2f}" if item.is_counted else words("review.waived")
    right: Row = [Segment(f" {score}", ink(palette.faint))]
    mark: Piece = (f"{MARKS[item.state]} ", ink(mark_colour(item.state, palette)))
    ground = palette.text if item.is_counted else palette.quiet
    text: Piece = (visible_line(item.requirement), ink(ground))
    lines = prefix_rows(rows_of([text], max(1, width - 2 - cell_len(score) - 1)), mark)
    rows = [two_sided(lines[0], right, width), *lines[1:]]
    for evidence in item.evidence:
        rows += _evidence_rows(evidence, look, width)
    if item.is_unproven:
        said: list[Piece] = [(words("review.quoteless"), ink(palette.quiet))]
        rows += prefix_rows(rows_of(said, max(1, width - 4)), ("    ", PLAIN))
    return rows


def _evidence_rows(evidence: Evidence, look: Look, width: int) -> list[Row]:
    """Return the source of an evidence and an excerpt."""
    palette, words = look.palette, look.words
    colour = palette.good if evidence.supports else palette.bad
    head: list[Piece] = []
    head.append((f"{words(f'review.evidence.{evidence.kind}')} ", ink(palette.faint)))
    if evidence.kind not in ("reply", "user"):
        head.append((visible_line(evidence.source), ink(palette.quiet)))
    if evidence.exit_code is not None:
        said = words("output.exit", code=evidence.exit_code)
        head.append((f" · {said}", ink(colour)))
    elif not evidence.supports:
        head.append((f" · {words('review.against')}", ink(colour)))
    indent: Piece = ("    ", PLAIN)
    room = max(1, width - 4)
    rows = prefix_rows(rows_of(head, room), indent)
    if not evidence.text.strip():
        return rows
    body: list[Row] = []
    for line in make_visible(evidence.text.strip("\n")).split("\n"):
        body += rows_of([(line, ink(_line_colour(evidence, line, look)))], max(1, room - 2))
    return rows + prefix_rows(shorten_rows(body, *_EXCERPT, look), ("      ", PLAIN))


def _review_rows(
    label: str, text: str, look: Look, width: int, *, colour: str = "", by_model: bool = False
) -> list[Row]:
    """Return a labelled text of a review; ``label`` is the end of the label's key, empty for a
    continued row.
    """
    name = look.words(f"review.label.{label}") if label else ""
    shown = make_visible(text.strip())
    return labelled_rows(name, shown, look, width, colour=colour, by_model=by_model, column=9)


def _line_colour(evidence: Evidence, line: str, look: Look) -> str:
    """Return the colour of an excerpt's line; lines of a diff are coloured."""
    if evidence.kind == "diff" and line[:1] in ("+", "-", "−"):
        return look.palette.good if line[0] == "+" else look.palette.bad
    return look.palette.quiet
