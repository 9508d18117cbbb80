"""`kiosk`, also as `python -m deployments.cli`: the command line."""

from __future__ import annotations

import sys

from cluster.errors import HouseError, InvalidSetting
from deployments.cli import screen
from deployments.cli.command_line import command_line


def main() -> None:
    """Run one command; errors become a sentence and exit code 1, or 2 for a setting that makes no sense."""
    try:
        command_line()()
    except HouseError as error:
        screen.print_error(error, as_json="--json" in sys.argv)
        sys.exit(2 if isinstance(error, InvalidSetting) else 1)
    except KeyboardInterrupt:
        screen.err().print("interrupted")
        sys.exit(130)


if __name__ == "__main__":
    main()
