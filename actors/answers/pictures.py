"""Find the picture of a cited product in its record: a cover, else the first of its images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cluster.records.question import Picture

_WEB = re.compile(r"https?://[^\s/?#]+\S*\Z", re.IGNORECASE)
_ADDRESSES = ("image_src", "src", "url")
_WORDS = ("image_alt", "alt", "title")


def find_picture(product: Mapping[str, Any]) -> Picture | None:
    """Return a product's picture; only pictures with a web address count."""
    images = product.get("images")
    for found in (product.get("cover_image"), *(images if isinstance(images, list) else ())):
        written = found if isinstance(found, Mapping) else {"src": found}
        address = _first_valid(written, _ADDRESSES)
        if _WEB.match(address):
            return Picture(src=address, alt=_first_valid(written, _WORDS))
    return None


def _first_valid(written: Mapping[str, Any], names: tuple[str, ...]) -> str:
    texts = (written.get(name) for name in names)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
