"""The page of the first start: what this machine has, what fits it best, and two ways to begin."""
