"""The version of abeval, in one place.

Read by `abeval/__init__.py` and `store/saved.py`.
"""

__version__ = "0.1.0"
