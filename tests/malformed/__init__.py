"""Inputs with mistakes in them by the hundred, each through a whole command, and how each ends."""
