"""`kiosk`, also as `python -m deployments.cli`: the command line."""

from __future__ import annotations

import atexit
import gc
import sys

from cluster.errors import KioskError
from deployments.cli.command_line import command_line
from deployments.cli.framework import screen

_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"Imports make some hundred thousand objects and hardly any garbage."


def main() -> None:
    """Run one command; an error becomes a sentence on standard error and one of the exit codes 1, 2 and 3."""
    # Collections during imports and at the end of the process took a quarter of the time of a short command.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    atexit.register(gc.freeze)
    try:
        command_line(sys.argv[1] if len(sys.argv) > 1 else "")()
    except KioskError as error:
        screen.print_error(error, as_json="--json" in sys.argv)
        sys.exit(screen.exit_code_of(error))
    except KeyboardInterrupt:
        screen.err().print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
