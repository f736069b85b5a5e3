"""Reads GGUF files without trusting them: parsing, validation, split sets, identity."""
