"""A model loaded for use: its files, its session, its prefiller, and the thread that owns them."""
