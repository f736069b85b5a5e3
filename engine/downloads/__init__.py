"""The hub: searching it, and bringing models from it to disk, whole and verified."""
