"""`python -m jobs.playground`: load the sample data, or write it as upload bodies with `--out DIR`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

import orjson

from jobs.playground import driver


def main() -> None:
    """Parse arguments and call the driver."""
    parser = argparse.ArgumentParser(prog="python -m jobs.playground", description=__doc__)
    parser.add_argument("--redis-url", default="", help="where Redis is; else KIOSK_REDIS_URL")
    parser.add_argument("--app", default="playground", help="the app to fill")
    parser.add_argument("--out", type=Path, help="write upload bodies into this folder instead")
    parser.add_argument("--now-ms", type=int, help="with --out: the moment the times are relative to")
    chosen = parser.parse_args()
    if chosen.out:
        done: object = driver.write_sample(chosen.out, chosen.now_ms)
    else:
        try:
            done = asdict(driver.load_into_app(chosen.redis_url, chosen.app))
        except ValueError as error:
            parser.error(str(error))
    sys.stdout.write(orjson.dumps(done).decode() + "\n")


if __name__ == "__main__":
    main()
