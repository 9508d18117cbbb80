from __future__ import annotations

import pytest

from cluster.records.archive.archive_client import ClientRule, find_rule, fold_client_name, is_client_name

ID = "c-0123456789abcdef"


def rules(*clients: str) -> dict[str, ClientRule]:
    return {fold_client_name(client): ClientRule(client=client) for client in clients}


@pytest.mark.parametrize(
    ("client_id", "name", "host", "chosen"),
    [
        (ID, "Claude", "claude.ai", ID),
        ("c-other", "Claude", "claude.ai", "host:claude.ai"),
        ("c-other", "Claude", "evil.example", "Claude"),
        ("c-other", "other", "evil.example", "*"),
        ("c-other", "other", "", "*"),
        ("c-other", "host:claude.ai", "evil.example", "*"),
        ("c-other", "HOST:Claude.ai", "", "*"),
        ("c-other", ID, "", "*"),
    ],
)
def test_what_is_proven_goes_before_what_is_claimed(
    client_id: str, name: str, host: str, chosen: str
) -> None:
    assert find_rule(rules("*", ID, "host:claude.ai", "Claude"), client_id, name, host).client == chosen


@pytest.mark.parametrize(
    ("client", "claim"),
    [
        ("Claude", True),
        ("host claude", True),
        ("c-short", True),
        (ID, False),
        ("host:claude.ai", False),
        ("*", False),
    ],
)
def test_client_claims_differ_from_verified_names(client: str, claim: bool) -> None:
    assert is_client_name(client) is claim
