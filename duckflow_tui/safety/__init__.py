"""Decides what may happen: workspace and paths, risk, policy, gates, safe text, secrets."""
