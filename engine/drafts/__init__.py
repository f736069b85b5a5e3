"""Drafters: the files that guess a target's next tokens, and which target they belong to."""
