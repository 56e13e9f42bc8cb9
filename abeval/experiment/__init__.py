"""The experiment file: `model` says what may be in it, `load` reads it and names its mistakes."""
