"""The engine's own matrix kernels: which run here, and whether they compute what they should."""
