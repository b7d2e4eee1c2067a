"""Prices of articles, with and without discounts."""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def to_cents(amount):
    """The amount rounded to whole cents, halves up."""
    return amount.quantize(CENT, rounding=ROUND_HALF_UP)


def total(price, discounts):
    """The price after the discounts."""
    rate = sum(discounts)
    return price * (1 - rate)


def with_tax(net, tax):
    """The net amount plus tax; 0.08 adds 8 %."""
    return net * (1 + tax)
