"""Tests of `abeval/study/`."""
