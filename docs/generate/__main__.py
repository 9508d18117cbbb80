"""Write the pages of `docs/reference`, or compare them with the code."""

from __future__ import annotations

import logging
import sys

from cluster.log import set_up_logging
from docs.generate.pages import FOLDER, build_pages


def main() -> int:
    """Write or compare all pages; the exit code is 1 if `--check` finds a difference."""
    set_up_logging(level=logging.ERROR, people=True)
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in build_pages().items():
        path = FOLDER / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text, "utf-8")
    for name in stale:
        sys.stdout.write(f"{'differs' if check else 'written'}: docs/reference/{name}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
