"""Runs the set-up, then the command: `python CHECKOUT/setup COMMAND ...`."""

import sys
from pathlib import Path

# Run by path, the folder itself is on the import path; its parent is what imports need.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from setup.bootstrap import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
