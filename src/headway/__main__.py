"""python -m headway"""

import os
import sys

# `python -m` looks for modules in the current folder first, and that may be a downloaded model
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from headway.cli import main  # noqa: E402

main()
