"""The set-up: turns a clean clone into a working Twofold. Standard library only."""
