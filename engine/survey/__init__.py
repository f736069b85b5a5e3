"""Looks at the machine in a process of its own: plans, measurements and the doctor's findings."""
