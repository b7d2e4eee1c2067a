"""Prices and discounts."""

import unittest
from decimal import Decimal

from shop.pricing import to_cents, total, with_tax

TEN_PERCENT = Decimal("0.10")


class PricingTest(unittest.TestCase):
    def test_without_discounts_the_price_stays(self):
        self.assertEqual(total(Decimal(100), []), Decimal(100))

    def test_one_discount_takes_its_share(self):
        self.assertEqual(total(Decimal(100), [TEN_PERCENT]), Decimal(90))

    def test_two_discounts_apply_one_after_the_other(self):
        self.assertEqual(total(Decimal(100), [TEN_PERCENT, TEN_PERCENT]), Decimal(81))

    def test_tax_is_added_to_the_net_amount(self):
        self.assertEqual(with_tax(Decimal(100), Decimal("0.08")), Decimal(108))

    def test_half_a_cent_rounds_up(self):
        self.assertEqual(to_cents(Decimal("1.005")), Decimal("1.01"))
