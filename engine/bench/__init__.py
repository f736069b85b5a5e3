"""Benchmarks: measurements of this machine and of the paths, as rows of data."""
