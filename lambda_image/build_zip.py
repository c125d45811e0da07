"""Builds the zip of a function without Docker: `python build_zip.py MODEL`. Prints the zip's path.

The CDK's command runs it when it publishes the function's code, from the copy of this folder in the
cloud assembly.
"""

import sys
from pathlib import Path

# The program of this copy, and not one that is installed, also where PYTHONSAFEPATH is set.
sys.path.insert(0, str(Path(__file__).parent))

from zip_builder.build import main

if __name__ == "__main__":
    sys.exit(main())
