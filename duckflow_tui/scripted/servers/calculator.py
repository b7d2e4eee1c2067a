"""A calculator: exact where it can be, and never a program's interpreter."""

from __future__ import annotations

import ast
from collections.abc import Callable
from decimal import Decimal, DecimalException, localcontext
from typing import Final

from duckflow_tui.scripted.servers.serving import JsonObject, Tool, ToolProblem, serve

LONGEST: Final = 500  # characters of an expression
LARGEST_POWER: Final = 1_000
DIGITS: Final = 50

_OPERATORS: Final[dict[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: Decimal.__add__,
    ast.Sub: Decimal.__sub__,
    ast.Mult: Decimal.__mul__,
    ast.Div: Decimal.__truediv__,
    ast.FloorDiv: Decimal.__floordiv__,
    ast.Mod: Decimal.__mod__,
    ast.Pow: Decimal.__pow__,
}


def calculate(work: Callable[[], Decimal]) -> JsonObject:
    """Do the work and return its result as a number, exact to 50 digits. Raises ToolProblem."""
    try:
        with localcontext() as context:
            context.prec = DIGITS
            value = work()
            whole = value == value.to_integral_value() and abs(value) < Decimal(10) ** 15
    except (ZeroDivisionError, DecimalException) as error:
        reason = "division by zero" if "Zero" in type(error).__name__ else "no number comes of it"
        raise ToolProblem(reason) from error
    if not value.is_finite():
        raise ToolProblem("no number comes of it")
    return {"result": int(value) if whole else float(value)}


def of_two(work: Callable[[Decimal, Decimal], Decimal]) -> Callable[..., JsonObject]:
    """Return a tool's function of two numbers, ``a`` and ``b``, that returns the result of
    ``work``.
    """

    def run(a: float, b: float) -> JsonObject:
        return calculate(lambda: work(_to_decimal(a), _to_decimal(b)))

    return run


def evaluate(expression: str) -> JsonObject:
    """Return the value of an expression of numbers, + - * / // % ** and brackets. Raises
    ToolProblem, also for anything else in it.
    """
    if len(expression) > LONGEST:
        raise ToolProblem(f"an expression has at most {LONGEST} characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ToolProblem("this is no expression") from error
    return calculate(lambda: _evaluate_node(tree.body))


def _evaluate_node(node: ast.expr) -> Decimal:
    """Return the value of a part of an expression. Raises ToolProblem for a part that is not
    allowed.
    """
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as value):
            return _to_decimal(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate_node(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _evaluate_node(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            one, other = _evaluate_node(left), _evaluate_node(right)
            if isinstance(op, ast.Pow) and abs(other) > LARGEST_POWER:
                raise ToolProblem(f"an exponent is at most {LARGEST_POWER}")
            return _OPERATORS[type(op)](one, other)
        case _:
            pass
    raise ToolProblem("only numbers, + - * / // % ** and brackets are known here")


def _to_decimal(value: object) -> Decimal:
    """Convert a number. Raises ToolProblem for another value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolProblem("a and b are numbers")
    return Decimal(str(value))


_TWO: Final[dict[str, JsonObject]] = {"a": {"type": "number"}, "b": {"type": "number"}}

TOOLS: Final = (
    Tool("add", "Adds two numbers.", of_two(Decimal.__add__), _TWO),
    Tool("subtract", "Takes b from a.", of_two(Decimal.__sub__), _TWO),
    Tool("multiply", "Multiplies two numbers.", of_two(Decimal.__mul__), _TWO),
    Tool("divide", "Divides a by b.", of_two(Decimal.__truediv__), _TWO),
    Tool(
        "evaluate",
        "Works out an expression of numbers, + - * / // % ** and brackets.",
        evaluate,
        {"expression": {"type": "string", "maxLength": LONGEST}},
    ),
)

if __name__ == "__main__":
    serve("calculator", TOOLS)
