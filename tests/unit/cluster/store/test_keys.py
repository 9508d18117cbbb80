"""Every key is documented, tagged, and its own."""

from __future__ import annotations

import inspect

from cluster.store import keys

KINDS = {"String", "Hash", "List", "Set", "Sorted", "Stream"}
FUNCTIONS = [function for _, function in inspect.getmembers(keys, inspect.isfunction)]


def _made(app: str) -> dict[str, str]:
    made = {}
    for function in FUNCTIONS:
        names = list(inspect.signature(function).parameters)
        made[function.__name__] = function(**{name: app if name == "app" else f"<{name}>" for name in names})
    return made


def test_every_key_has_a_description() -> None:
    for function in FUNCTIONS:
        assert function.__doc__, function.__name__
        assert function.__doc__.split()[0].rstrip(":,") in {
            "String",
            "String:",
            "Hash",
            "List",
            "Set",
            "Sorted",
            "Stream",
        }


def test_no_two_keys_are_the_same() -> None:
    made = _made("shop")
    assert len(set(made.values())) == len(made)


def test_all_keys_of_an_app_share_its_hash_tag() -> None:
    made = _made("shop")
    # One script writes them and the number of the app, which all replicas poll under one key.
    assert made.pop("ended_tokens").startswith("kiosk:{access}:")
    for name, key in made.items():
        parameters = inspect.signature(getattr(keys, name)).parameters
        assert key.startswith("{shop}:") == ("app" in parameters), name
