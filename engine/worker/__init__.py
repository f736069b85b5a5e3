"""The process that owns the model: it may die, and the server that started it lives on."""
