"""The operations that a model can call, their registry, and the router that judges and
runs calls.
"""
