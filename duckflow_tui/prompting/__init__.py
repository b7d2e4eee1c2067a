"""Requests to models: the three layers, token budgets, views of the state."""
