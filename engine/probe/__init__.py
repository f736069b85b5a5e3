"""Finds out what this machine is and how fast: devices, memory, disks, products."""
