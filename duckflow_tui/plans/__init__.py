"""Plans of several steps: proposed, carried out step by step, reported."""
