"""Prices, discounts and receipts of a very small shop."""
