"""Hardware profile + decoder + prefiller + wishes -> plan: pure functions over plain data."""
