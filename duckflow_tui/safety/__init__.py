"""Safety checks before an effect: workspace and paths, command lines, risk, policy, questions to
the user, safe text, secrets.
"""
