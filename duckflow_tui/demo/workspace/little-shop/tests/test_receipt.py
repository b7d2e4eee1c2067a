"""The receipt."""

from decimal import Decimal

from shop.receipt import Item, receipt


def test_receipt_lists_items_and_their_sum():
    basket = [
        Item("Rubber duck", Decimal("9.50")),
        Item("Pond", Decimal("120.00"), (Decimal("0.10"),)),
    ]
    assert receipt(basket).splitlines() == [
        "Rubber duck                 9.50",
        "Pond                      108.00",
        "--------------------------------",
        "Total                     117.50",
    ]
