"""The state: models, events, the Store, the phase machine. Imports nothing of ours."""
