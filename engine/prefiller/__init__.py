"""Prefillers: building them, reading them, and pairing them with a decoder."""
