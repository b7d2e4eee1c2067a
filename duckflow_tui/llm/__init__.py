"""How models are asked: endpoints, roles, streaming, the decision codecs, usage and cost."""
