"""Clients whose id is the https address of a metadata document: pinned by the operator, cached, or fetched.

A fetch happens only on behalf of a person who is signed in, so no visitor can make the server fetch. Codes and tokens
carry what later requests need; the token endpoint and `/mcp` never fetch.

Source: draft-ietf-oauth-client-id-metadata-document; MCP 2026-07-28, client registration
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from cluster.addresses.origin import is_loopback
from cluster.addresses.ssrf_guard import find_address_fault, find_host
from cluster.clock import Clock
from cluster.errors import Invalid
from cluster.external_fetcher import DocumentError, ExternalFetcher
from deployments.archive.oauth.client_identity.assertions import read_keys
from deployments.archive.oauth.client_identity.clients import OAuthClient, short_id
from deployments.archive.oauth.client_identity.metadata_validation import read_client_document, read_object
from deployments.archive.oauth.replies import OAuthError
from deployments.edge.limits.token_buckets import BucketRate, TokenBuckets

MOST_CACHED = 256
"Clients of fetched documents in the memory of one process; the one used longest ago goes first."
FETCHES = BucketRate(0.2, 20)
"Fetches of one person."
_BUSY = "Too many applications were looked up for you. Wait a minute and connect again."

_log = structlog.get_logger()


class InvalidDocument(Exception):
    """The document of a client can't be used; `reason` is what the person reads."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class DocumentClients:
    """Finds clients by the addresses of their documents.

    `mode` says which documents are accepted: `off`: none; `pinned`: those of the operator; `fetch`: these, and those of
    every public host.
    """

    def __init__(
        self,
        mode: str,
        pinned: Mapping[str, OAuthClient],
        clock: Clock,
        documents: ExternalFetcher | None = None,
    ) -> None:
        self._mode = mode
        self._pinned = pinned
        self._clock = clock
        self._documents = documents or ExternalFetcher()
        self._limits = TokenBuckets(clock)
        self._cached: OrderedDict[str, tuple[OAuthClient, float]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether any document is accepted."""
        return self._mode != "off"

    def is_document(self, client_id: str) -> bool:
        """Return whether a client id is the address of a document; ids of registered clients never are."""
        return self.is_on and client_id.startswith("https://")

    def find_pinned(self, client_id: str) -> OAuthClient | None:
        """Return the client of a pinned document; None: only a fetch can tell.

        Errors:
            InvalidDocument: the address is invalid, or only pinned documents are accepted
        """
        client = self._pinned.get(client_id)
        if client is not None:
            return client
        fault = find_address_fault(client_id)
        if fault:
            raise InvalidDocument(f"The address of the application’s description {fault}.")
        if self._mode == "pinned":
            raise InvalidDocument(
                f"This archive does not know the application of {find_host(client_id)}. "
                "Ask whoever runs the archive to add it."
            )
        return None

    async def find(self, client_id: str, *, user_id: str, origin: str) -> OAuthClient:
        """Return a client for a person who is signed in. `origin` is the advertised one of this server.

        Errors:
            InvalidDocument: the address, the fetch or the document is invalid
        """
        client = self.find_pinned(client_id) or self._find_cached(client_id)
        return client or await self._fetch(client_id, user_id, origin)

    def _find_cached(self, client_id: str) -> OAuthClient | None:
        client, ends_s = self._cached.get(client_id, (None, 0.0))
        if client is None or self._clock.monotonic_s() >= ends_s:
            return None
        self._cached.move_to_end(client_id)
        return client

    async def _fetch(self, client_id: str, user_id: str, origin: str) -> OAuthClient:
        # A fetch costs this server a connection and another host a request, so nobody may cause many.
        if self._limits.wait_s("document", user_id, FETCHES):
            raise InvalidDocument(_BUSY)
        host = find_host(client_id)
        try:
            fetch = partial(
                self._documents.fetch,
                person=user_id,
                may_be_loopback=is_loopback(urlsplit(origin).netloc),
                # Document and keys share one deadline, or a slow host could delay the page twice as long.
                ends_s=self._documents.end_s(),
            )
            document = await fetch(client_id)
            described = read_client_document(client_id, document.body)
            client = described.client
            life_s = document.life_s
            if described.keys_address:
                key_set = await fetch(described.keys_address)
                client = replace(client, keys=read_keys(read_object(key_set.body), described.algorithm))
                # The keys may change sooner than the document.
                life_s = min(life_s, key_set.life_s)
        except DocumentError as error:
            _log.info("client_document_not_fetched", client=short_id(client_id), reason=error.reason)
            raise InvalidDocument(f"{host}, which describes the application, {error.reason}.") from error
        except OAuthError as error:
            _log.info("client_document_refused", client=short_id(client_id), reason=error.description)
            raise InvalidDocument(
                f"The description of the application at {host} can’t be used: {error.description}."
            ) from error
        self._cached[client_id] = (client, self._clock.monotonic_s() + life_s)
        self._cached.move_to_end(client_id)
        if len(self._cached) > MOST_CACHED:
            self._cached.popitem(last=False)
        return client


def read_pinned_documents(path: Path | None) -> dict[str, OAuthClient]:
    """Return the clients of a file with one document or a list of them, or of all `*.json` files of a folder.

    Errors:
        Invalid: a file can't be read, or a document in it describes no client
    """
    if path is None:
        return {}
    clients: dict[str, OAuthClient] = {}
    try:
        # Sorted, so that of two files with one client the same one counts at each start.
        for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
            value = json.loads(file.read_bytes())
            for document in value if isinstance(value, list) else [value]:
                address = str(document["client_id"])
                fault = find_address_fault(address)
                if fault:
                    raise Invalid(f"{file.name}: the client_id {address[:100]!r} {fault}")
                described = read_client_document(address, json.dumps(document).encode())
                if described.keys_address:
                    raise Invalid(f"{file.name}: nothing is fetched for {address}; put its keys into jwks")
                clients[address] = described.client
    except OAuthError as error:
        raise Invalid(f"KIOSK_ARCHIVE_PINNED_CLIENTS: {file.name}: {error.description}") from error
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        raise Invalid(
            f"KIOSK_ARCHIVE_PINNED_CLIENTS names {path.name}, which holds no client documents: {error}"
        ) from error
    return clients
