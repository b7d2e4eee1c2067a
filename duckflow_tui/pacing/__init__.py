"""How long the work may go on: profile, complexity, the limit, vitals, stagnation."""
