"""The page about reading prompts: which path, where the weights lie, how long it takes, and why."""
