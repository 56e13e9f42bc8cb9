"""Past experiments: a file of their effects, and what they say together."""
