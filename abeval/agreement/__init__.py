"""Offline beside online: do a replay and an analysis agree, and if not, why.

`compare` joins the results (table, models on traffics, what the causes say), `agree` runs the
analysis and the replay for it and reads the facts of the logs. Each cause is a module of `causes/`.
"""
