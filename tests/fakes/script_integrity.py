"""The fingerprint that pages may demand of the browser script."""

from __future__ import annotations

import base64
import hashlib

from deployments.demo.browser_script import read_script


def script_integrity() -> str:
    """Return the value of the attribute `integrity` for the exact version."""
    return "sha384-" + base64.b64encode(hashlib.sha384(read_script()).digest()).decode()
