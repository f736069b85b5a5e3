"""The window: what a person sees of Twofold. It reaches the engine only through its API."""
