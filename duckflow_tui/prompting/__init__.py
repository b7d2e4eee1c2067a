"""What models are told: the three layers, token budgets, views of the state."""
