"""A receipt as the customer reads it."""

from dataclasses import dataclass
from decimal import Decimal

from shop.pricing import to_cents, total


@dataclass(frozen=True)
class Item:
    """One line of a basket; a discount of 0.10 takes 10 % off."""

    name: str
    price: Decimal
    discounts: tuple[Decimal, ...] = ()


def receipt(items, width=32):
    """One line for each item and the sum, the amounts flush right."""
    lines = []
    whole = Decimal(0)
    for item in items:
        amount = to_cents(total(item.price, item.discounts))
        whole += amount
        lines.append(f"{item.name:<{width - 10}}{amount:>10}")
    lines.append("-" * width)
    lines.append(f"{'Total':<{width - 10}}{whole:>10}")
    return "\n".join(lines)
