"""Proof that a posted form comes from a page of the console, in the browser that got it."""

from __future__ import annotations

from starlette.requests import Request

from deployments.sign_in.signing import SignInSigner

FIELD = "csrf"
HEADER = "x-csrf-token"


def is_same_origin(request: Request, server_origin: str) -> bool:
    """Return whether the browser states that a page of this origin sent the request.

    A page without a referrer posts with `Origin: null`; then `Sec-Fetch-Site` and the token decide.
    """
    origin = request.headers.get("origin", "null")
    site = request.headers.get("sec-fetch-site", "same-origin")
    return origin in ("null", server_origin) and site in ("same-origin", "none")


def is_genuine(signing: SignInSigner, bound_to: str, token: str) -> bool:
    """Return whether a token was made for this session or browser."""
    return bool(bound_to) and signing.is_form_proof(bound_to, token)
