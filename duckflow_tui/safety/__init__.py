"""What may be done: workspace and paths, risk, policy, gates, safe text, secrets."""
