"""A turn, its steps and asides: who asks the model, runs the actions, judges and sets the pace."""
