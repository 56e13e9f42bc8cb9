"""Estimate which rankers users prefer, from a log of interleaved lists."""
