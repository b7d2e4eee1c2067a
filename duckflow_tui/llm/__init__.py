"""Requests to language models: endpoints and roles, streaming, the codecs of decisions, usage and
cost.
"""
