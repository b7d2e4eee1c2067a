"""What the demo's project holds, and the edits that the script knows for it."""

from __future__ import annotations

import re
from typing import Final, Literal

from duckflow_tui.state.base import JsonObject

CODE: Final = "src/shop/pricing.py"
TESTS: Final = "tests/test_pricing.py"
RECEIPT: Final = "src/shop/receipt.py"
RECEIPT_TESTS: Final = "tests/test_receipt.py"
LOYALTY_TESTS: Final = "tests/test_loyalty.py"
README: Final = "README.md"
CHANGELOG: Final = "CHANGELOG.md"
SAVINGS_TESTS: Final = "tests/test_savings.py"

#: The tests that the stories speak of.
TWO_DISCOUNTS: Final = "test_two_discounts_apply_one_after_the_other"
HALF_A_CENT: Final = "test_half_a_cent_of_theirs_rounds_up_too"

Fix = Literal["loop", "small", "cap", "test"]
#: What pricing.py holds: as it was, one of the fixes, half of one, or something unknown.
Held = Literal["sum", "loop", "small", "cap", "import_missing", "line_missing", "other"]

_SUM: Final = "rate = sum(discounts)"
_CAP: Final = "rate = min(sum(discounts), Decimal(1))"
_PROD: Final = "rate = 1 - prod(1 - share for share in discounts)"
_LOOP: Final = "for rate in discounts:\n        price *= 1 - rate"
_RETURN: Final = "return price * (1 - rate)"
_DECIMAL: Final = "from decimal import ROUND_HALF_UP, Decimal\n"
_IMPORT: Final = "from math import prod\n"
_RATE: Final[dict[Held, str]] = {
    "sum": _SUM,
    "line_missing": _SUM,
    "cap": _CAP,
    "small": _PROD,
    "import_missing": _PROD,
}
_TEST: Final = (
    "    def test_two_discounts_{name}(self):\n"
    "        self.assertEqual(total(Decimal(100), [TEN_PERCENT, TEN_PERCENT]), Decimal({total}))\n"
)


def held_by(text: str) -> Held:
    """What the text of pricing.py amounts to."""
    imports = bool(re.search(r"^from math import prod$", text, re.M))
    if f"    {_LOOP}\n    return price\n" in text:
        return "loop"
    if f"    {_PROD}\n    {_RETURN}\n" in text:
        return "small" if imports else "import_missing"
    if f"    {_CAP}\n    {_RETURN}\n" in text:
        return "cap"
    if f"    {_SUM}\n    {_RETURN}\n" in text:
        return "line_missing" if imports else "sum"
    return "other"


def fix_edits(fix: Fix, held: Held) -> list[JsonObject]:
    """The edits of a fix where pricing.py holds this."""
    rate = _RATE.get(held, _SUM)
    match fix:
        case "loop":
            old = f"    {rate}\n    {_RETURN}\n"
            return [{"old": old, "new": f"    {_LOOP}\n    return price\n"}]
        case "small":
            return [{"old": _DECIMAL, "new": _DECIMAL + _IMPORT}, {"old": rate, "new": _PROD}]
        case "cap":
            return [{"old": rate, "new": _CAP}]
        case "test":
            return [
                {
                    "old": _TEST.format(name="apply_one_after_the_other", total=81),
                    "new": _TEST.format(name="are_added", total=80),
                }
            ]


# --- the loyalty discount ----------------------------------------------------------------------

LOYALTY_TEST_FILE: Final = '''\
"""The discount of regular customers."""

import unittest
from decimal import Decimal

from shop.pricing import loyal_total


class LoyaltyTest(unittest.TestCase):
    def test_regular_customers_get_five_percent_off(self):
        self.assertEqual(loyal_total(Decimal(100), []), Decimal(95))

    def test_half_a_cent_of_theirs_rounds_up_too(self):
        self.assertEqual(loyal_total(Decimal("9.50"), []), Decimal("9.03"))
'''

_CENT: Final = 'CENT = Decimal("0.01")\n'
_TAX: Final = "def with_tax(net, tax):\n"
_ROUNDED: Final = "    return round(total(price, [*discounts, LOYALTY]), 2)\n"
_IN_CENTS: Final = "    return to_cents(total(price, [*discounts, LOYALTY]))\n"
_LOYAL: Final = (
    "def loyal_total(price, discounts):\n"
    '    """What a regular customer pays: the loyalty discount comes last, off what is left."""\n'
)

#: The calculation as it is written first: its rounding is wrong for half a cent.
CALCULATION: Final[list[JsonObject]] = [
    {"old": _CENT, "new": f'{_CENT}LOYALTY = Decimal("0.05")\n'},
    {"old": _TAX, "new": f"{_LOYAL}{_ROUNDED}\n\n{_TAX}"},
]
#: What mends the rounding.
MEND: Final[list[JsonObject]] = [{"old": _ROUNDED, "new": _IN_CENTS}]

RECEIPT_EDITS: Final[list[JsonObject]] = [
    {
        "old": "from shop.pricing import to_cents, total\n",
        "new": "from shop.pricing import loyal_total, to_cents, total\n",
    },
    {
        "old": "def receipt(items, width=32):\n",
        "new": "def receipt(items, width=32, loyal=False):\n",
    },
    {
        "old": "    lines.append(f\"{'Total'",
        "new": (
            "    if loyal:\n"
            "        less = loyal_total(whole, []) - whole\n"
            "        whole += less\n"
            "        lines.append(f\"{'Loyalty discount':<{width - 10}}{less:>10}\")\n"
            "    lines.append(f\"{'Total'"
        ),
    },
]
RECEIPT_TEST_EDITS: Final[list[JsonObject]] = [
    {
        "old": ('                "Total                     117.50",\n            ],\n        )\n'),
        "new": (
            '                "Total                     117.50",\n            ],\n        )\n\n'
            "    def test_regular_customers_see_their_discount(self):\n"
            "        self.assertEqual(\n"
            "            receipt(BASKET, loyal=True).splitlines()[-2:],\n"
            "            [\n"
            '                "Loyalty discount           -5.87",\n'
            '                "Total                     111.63",\n'
            "            ],\n"
            "        )\n"
        ),
    }
]
README_EDITS: Final[list[JsonObject]] = [
    {
        "old": "after the other, each to what the one before has left.\n",
        "new": (
            "after the other, each to what the one before has left.\n\n"
            "Regular customers get another 5 % off, after all other discounts: `loyal_total`.\n"
        ),
    }
]
CHANGELOG_FILE: Final = "# Changes\n\n- Regular customers get another 5 % off (`loyal_total`).\n"

# --- what a customer saves ---------------------------------------------------------------------

SAVINGS_EDITS: Final[list[JsonObject]] = [
    {
        "old": _TAX,
        "new": (
            "def savings(price, discounts):\n"
            '    """What the discounts take off the price."""\n'
            f"    return price - total(price, discounts)\n\n\n{_TAX}"
        ),
    }
]
SAVINGS_TEST_FILE: Final = '''\
"""What a customer saves."""

import unittest
from decimal import Decimal

from shop.pricing import savings


class SavingsTest(unittest.TestCase):
    def test_without_discounts_nothing_is_saved(self):
        self.assertEqual(savings(Decimal(100), []), Decimal(0))

    def test_a_discount_saves_its_share(self):
        self.assertEqual(savings(Decimal(100), [Decimal("0.10")]), Decimal(10))
'''
SAVINGS_README_EDITS: Final[list[JsonObject]] = [
    {
        "old": "after the other, each to what the one before has left.\n",
        "new": (
            "after the other, each to what the one before has left.\n\n"
            "`savings` tells what the discounts take off a price.\n"
        ),
    }
]


def has_savings(text: str) -> bool:
    """Whether pricing.py tells what a customer saves."""
    return "def savings(" in text


# --- the tax rate ------------------------------------------------------------------------------

_RATE_HELD: Final = re.compile(r"^TAX_RATE = Decimal\(\"([\d.]+)\"\)$", re.M)
_RATE_TESTED: Final = re.compile(r"with_tax\(.*, Decimal\(\"([\d.]+)\"\)\)")


def tax_edits(rate: str) -> list[JsonObject]:
    """The edit that names the rate, a share such as 0.08."""
    return [{"old": _CENT, "new": f'{_CENT}TAX_RATE = Decimal("{rate}")\n'}]


def tax_held(text: str) -> str:
    """The rate that the text of pricing.py names; empty for none."""
    return found[1] if (found := _RATE_HELD.search(text)) else ""


def tax_tested(text: str) -> str:
    """The rate that the test of with_tax calculates with; empty for none."""
    return found[1] if (found := _RATE_TESTED.search(text)) else ""


# --- what a file holds -------------------------------------------------------------------------


def is_calculated(text: str) -> bool:
    """Whether pricing.py has the loyalty discount."""
    return "def loyal_total(" in text


def is_rounded_wrongly(text: str) -> bool:
    """Whether it has it with the rounding of the first version."""
    return _ROUNDED in text
