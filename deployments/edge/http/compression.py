"""gzip compression of replies: only of long replies, for clients that accept it, and never of a secret.

Short replies gain nothing, and scanning their headers would slow the hot path. The endpoints of sign-in, the archive
and keys never compress: a length that depends on a secret discloses it (BREACH). The endpoints that compress use no
cookies, and none of their replies contains a key.

HAProxy 2.8 could compress too, but has no minimum size (3.2 has). It would compress replies of 300 bytes on the
hot path, and those of the archive and of sign-in.
"""

from __future__ import annotations

import asyncio
import zlib
from functools import lru_cache
from typing import Final

from deployments.edge.http.replies import Header

LEAST_BYTES: Final = 1_024
"Bodies of at least this many bytes are compressed."
LEAST_HOT_BYTES: Final = 16_384
"The minimum for hot endpoints; gzip takes 0.3 ms for 25 kB."
# Larger bodies are compressed in a thread. At 10 ms for 1 MB, this one takes 0.6 ms on the event loop.
_INLINE: Final = 65_536
_LONGEST_HEADER: Final = 512
_LEVEL: Final = 1
"Level 6 takes three times as long for 5 % fewer bytes."

ENCODED: tuple[Header, ...] = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Return whether a client accepts gzip (RFC 9110, 12.5.3); a weight of 0 refuses it."""
    # Cut, because the client's text becomes a key of the cache below.
    return _accepts(accept_encoding[:_LONGEST_HEADER])


@lru_cache(maxsize=256)
def _accepts(accept_encoding: bytes) -> bool:
    weights: dict[str, float] = {}
    for part in accept_encoding.decode("latin-1").lower().split(","):
        name, _, parameter = part.partition(";")
        weight = parameter.strip().removeprefix("q=")
        try:
            weights[name.strip()] = float(weight) if weight else 1.0
        except ValueError:
            weights[name.strip()] = 0.0
    # RFC 9110, 12.5.3: `*` stands for each coding that the header does not name.
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def gzip(body: bytes) -> bytes:
    """Return a compressed body.

    Cost: 10 ms for 1 MB; zlib releases the GIL meanwhile.
    """
    # 15 bits of window, and 16 for the format of gzip in place of that of zlib.
    return zlib.compress(body, _LEVEL, 31)


async def gzip_in_thread(body: bytes) -> bytes:
    """Return a compressed body; a long body is compressed in a thread, so that other requests continue."""
    if len(body) < _INLINE:
        return gzip(body)
    return await asyncio.get_running_loop().run_in_executor(None, gzip, body)
