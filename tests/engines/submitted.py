"""Analyse EXPERIMENT on Spark, and print the JSON: by spark-submit, or at an address.

`spark-submit --master … submitted.py EXPERIMENT`, or `python -m tests.engines.submitted EXPERIMENT
ADDRESS`.
"""

from __future__ import annotations

import sys

import abeval

if __name__ == "__main__":
    address = sys.argv[2] if len(sys.argv) > 2 else None
    loaded = abeval.load(sys.argv[1]).replace(engine={"name": "spark", "address": address})
    sys.stdout.write(loaded.analyze().to_json())
