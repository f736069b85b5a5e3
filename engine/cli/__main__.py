"""Runs the command line as `python -m engine.cli`."""

from engine.cli.main import main

main()
