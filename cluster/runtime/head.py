"""Keep the former module path of `cluster.runtime.bootstrap` valid for operators' own manifests.

`python -m cluster.runtime.head PLAN` and `RAY_START_HOOK=cluster.runtime.head.without_client_server` are documented.
"""

from __future__ import annotations

import sys

from cluster.runtime.bootstrap import main as main
from cluster.runtime.bootstrap import without_client_server as without_client_server

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
