"""A tiny target and drafters that were really trained for it."""
