"""Tell whether a replay and an analysis agree, and if not, why.

`agree` reads the facts of the logs beside a replay; `compare` joins results, and checks each cause
of `causes/`.
"""
