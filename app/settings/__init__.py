"""The page of all settings: the window's own and the engine's, in one list."""
