"""Proof that a posted form comes from a page of the console, in the browser that got it."""

from __future__ import annotations

from deployments.sign_in.signing import SignInSigner

FIELD = "csrf"
HEADER = "x-csrf-token"


def is_genuine(signing: SignInSigner, bound_to: str, token: str) -> bool:
    """Return whether a token was made for this session or browser."""
    # The proof for an empty name would hold in every browser without cookies.
    return bool(bound_to) and signing.is_form_proof(bound_to, token)
