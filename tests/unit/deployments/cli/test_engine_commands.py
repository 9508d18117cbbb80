"""`kiosk engines` on a stopped installation: records change at once, what they ask for happens at the next start."""

from __future__ import annotations

import pytest

from cluster.errors import Conflict
from tests.fakes.command_runner import refusal_of, run_command, run_json

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]
connected = pytest.mark.usefixtures("connected_data_dir")


@connected
def test_an_engine_is_made_listed_scaled_moved_and_deleted() -> None:
    run_json("apps", "create", "bookshop")
    assert run_json("engines", "list") == {"engines": []}
    made = run_json("engines", "create", "bookshop", "summer", "--replicas", "1:3", "--memory", "256")
    assert (made["placement"], made["scaling"]["replicas_max"]) == ("door", 3)
    (listed,) = run_json("engines", "list", "bookshop")["engines"]
    assert listed == made
    assert (listed["state"], listed["replicas"], listed["requests_per_s"]) == ("running", 0, 0)
    scaled = run_json("engines", "scale", "bookshop", "summer", "--target", "2.5", "--down-after", "30")[
        "scaling"
    ]
    assert (scaled["target_requests"], scaled["downscale_delay_s"], scaled["replicas_max"]) == (2.5, 30, 3)
    assert "max_replicas_per_node" not in scaled
    apart = run_json("engines", "scale", "bookshop", "summer", "--per-node", "1")["scaling"]
    assert apart == {**scaled, "max_replicas_per_node": 1}
    assert run_json("engines", "scale", "bookshop", "summer", "--target", "3")["scaling"] == {
        **apart, "target_requests": 3,
    }  # fmt: skip
    assert (
        "max_replicas_per_node"
        not in run_json("engines", "scale", "bookshop", "summer", "--per-node", "0")["scaling"]
    )
    moved = run_json("engines", "place", "bookshop", "summer", "own", "--no-wait")
    assert (moved["placement"], moved["moving_to"]) == ("door", "own")
    for embedded, dedicated in (("door", "dedicated"), ("embedded", "own")):
        back = run_json("engines", "place", "bookshop", "summer", embedded, "--no-wait")
        assert (back["placement"], back["moving_to"]) == ("door", None)
        again = run_json("engines", "place", "bookshop", "summer", dedicated, "--no-wait")
        assert again["moving_to"] == "own"
    back = run_json("engines", "place", "bookshop", "summer", "door", "--no-wait")
    assert (back["placement"], back["moving_to"]) == ("door", None)
    assert run_json("engines", "delete", "bookshop", "summer")["deleted"] is True
    assert run_json("engines", "list") == {"engines": []}


@connected
def test_people_get_a_table_and_sentences() -> None:
    run_json("apps", "create", "bookshop")
    assert "is embedded in the API replicas" in run_command("engines", "create", "bookshop", "summer").stdout
    assert "with the API replicas" in run_command("engines", "list").stdout
    assert "Maximum replicas" in run_command("engines", "scale", "bookshop", "summer").stdout


@connected
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("create", "nope", "summer"), "there are: bookshop"),
        (("create", "bookshop", "Summer!"), "lower case letters, digits and -"),
        (("create", "bookshop", "taken"), "kiosk engines list bookshop"),
        (("create", "bookshop", "new", "--replicas", "3:1"), "replicas_min is larger than replicas_max"),
        (("create", "bookshop", "new", "--replicas", "many"), "for example 1:4"),
        (("create", "bookshop", "new", "--replicas", "1:²"), "for example 1:4"),
        (
            ("create", "bookshop", "new", "--memory", "1"),
            "memory_budget_mb: input should be greater than or equal",
        ),
        (("list", "nope"), "there are: bookshop"),
        (("place", "bookshop", "taken", "moon"), "choose embedded or dedicated"),
        (("place", "bookshop", "nope", "own", "--no-wait"), "`kiosk engines create bookshop nope` makes it"),
        (("scale", "bookshop", "taken", "--target", "0"), "target_requests: input should be greater than 0"),
        (("scale", "bookshop", "default"), "`default` comes with its first products"),
        (("delete", "bookshop", "nope"), "there are: taken"),
    ],
)
def test_errors_say_what_to_do_next(words: tuple[str, ...], advice: str) -> None:
    run_json("apps", "create", "bookshop")
    if words != ("scale", "bookshop", "default"):
        run_json("engines", "create", "bookshop", "taken")
    assert advice in refusal_of("engines", *words).message


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("create", "bookshop", "new", "--own"), "start it with `kiosk up`, or say --no-wait"),
        (("place", "bookshop", "taken", "own"), "start it with `kiosk up`"),
    ],
)
def test_nothing_moves_an_engine_of_a_stopped_installation(words: tuple[str, ...], advice: str) -> None:
    run_json("apps", "create", "bookshop")
    run_json("engines", "create", "bookshop", "taken")
    assert advice in refusal_of("engines", *words).message


@connected
def test_one_engine_more_than_the_bound_of_the_app_is_refused() -> None:
    run_json("apps", "create", "bookshop")
    run_json("apps", "switch", "bookshop", "max_engines=1")
    run_json("engines", "create", "bookshop", "summer")
    refused = refusal_of("engines", "create", "bookshop", "winter")
    assert isinstance(refused, Conflict)
    assert "bookshop has 1 of at most 1 engines" in refused.message
    assert [engine["engine_id"] for engine in run_json("engines", "list", "bookshop")["engines"]] == [
        "summer"
    ]


@connected
def test_help_teaches_by_examples() -> None:
    for command in ("create", "list", "place", "scale", "delete"):
        shown = run_command("engines", command, "--help").stdout
        assert f"kiosk engines {command}" in shown
