"""`kiosk`, also as `python -m cluster`: the command line."""

from __future__ import annotations

import sys

from cluster.commands import screen
from cluster.commands.line import command_line
from cluster.errors import HouseError, InvalidSetting


def main() -> None:
    """Run one command; errors become a sentence and exit code 1, or 2 for a setting that makes no sense."""
    try:
        command_line()()
    except HouseError as error:
        screen.tell_error(error, as_json="--json" in sys.argv)
        sys.exit(2 if isinstance(error, InvalidSetting) else 1)
    except KeyboardInterrupt:
        screen.err().print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
