"""The engine: everything that runs a model, without a window."""
