"""The receipt."""

import unittest
from decimal import Decimal

from shop.receipt import Item, receipt

BASKET = [
    Item("Rubber duck", Decimal("9.50")),
    Item("Pond", Decimal("120.00"), (Decimal("0.10"),)),
]


class ReceiptTest(unittest.TestCase):
    def test_receipt_lists_items_and_their_sum(self):
        self.assertEqual(
            receipt(BASKET).splitlines(),
            [
                "Rubber duck                 9.50",
                "Pond                      108.00",
                "--------------------------------",
                "Total                     117.50",
            ],
        )
