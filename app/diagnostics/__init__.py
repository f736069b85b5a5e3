"""The page about the hardware and about what is wrong: measurements, findings, logs, a bundle."""
