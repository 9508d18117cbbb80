"""`python -m jobs.imports`: the former name of `jobs.ingest.upload`, which API replicas of release 0.2.0 start."""

import sys

from jobs.ingest.upload.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
