"""Turns, steps of plans and answers beside the work: asking the model, running its calls, judging
the result, and pacing.
"""
