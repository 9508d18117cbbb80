"""What the administration shows of products and users, and trying the API."""

from __future__ import annotations

import ast
import shlex
from dataclasses import replace
from typing import Any

import pytest

from cluster.clock import iso_ms
from cluster.errors import Conflict, Forbidden, Invalid, NotFound, Unprocessable
from deployments.operations.framework.services import AdminConfig
from deployments.operations.insight.explanations import describe_missing, explain_product
from deployments.operations.insight.tryout import render_snippets
from tests.fakes.admin_shop import AdminShop
from tests.fakes.corner_shop import APP, upload


async def test_a_search_uses_words_and_filters(shop: AdminShop) -> None:
    page = await shop.perform("catalog.search", role="viewer", q="steel", fq="brand:Alder")
    assert "hand-fork" in [product["product_id"] for product in page["products"]]
    everything = await shop.perform("catalog.search", limit=3)
    assert (len(everything["products"]), everything["total"] > 3) == (3, True)


async def test_products_are_listed_page_by_page_in_order(shop: AdminShop) -> None:
    seen: list[str] = []
    after = ""
    while True:
        page = await shop.perform("catalog.list", limit=4, after=after)
        seen += [product["product_id"] for product in page["products"]]
        after = page["next"]
        if not after:
            break
    assert seen == sorted(seen)
    assert len(seen) == page["total"]
    narrowed = await shop.perform("catalog.list", prefix="trowel")
    assert all(product["product_id"].startswith("trowel") for product in narrowed["products"])


async def test_a_product_lists_the_words_that_search_reads(shop: AdminShop) -> None:
    view = await shop.perform("catalog.get", product_id="hand-fork")
    assert view.product["title"] == "Steel hand fork"
    assert set(view.words["title"]) == {"steel", "hand", "fork"}
    assert "alder" in view.words["metadata"]
    with pytest.raises(NotFound, match="there is no product none"):
        await shop.perform("catalog.get", product_id="none")


async def test_related_products_come_with_reasons(shop: AdminShop) -> None:
    related = await shop.perform("catalog.relate", product_id="bread-knife")
    together = {product["product_id"]: product["why"] for product in related["together"]}
    assert "cutting-board" in together
    assert together["cutting-board"]["reasons"][0] == "Often bought together"
    assert all("_explain" not in product for product in related["similar"])
    assert all(product["why"]["reasons"][0] == "Often bought together" for product in related["together"])
    unsold = await shop.perform("catalog.relate", product_id="crocus-bulbs")
    assert (unsold["together"], unsold["refused"]) == ([], {})
    assert unsold["similar"]


async def test_outcomes_count_interactions_by_type_and_day(shop: AdminShop) -> None:
    outcomes = await shop.perform("catalog.outcomes", product_id="watering-can", days=7)
    assert outcomes["by_type"] == {"add_to_cart": 4, "product_detail_page_view": 1}
    assert len(outcomes["days"]) == 7
    assert sum(sum(day["counts"].values()) for day in outcomes["days"]) == outcomes["total"] == 5


async def test_a_user_is_described_in_words(shop: AdminShop) -> None:
    user = await shop.perform("users.get", role="analyst", user_id="gina")
    assert [event["type"] for event in user["history"]][:2] == ["add_to_cart", "checkout"]
    assert user["history"][0]["products"] == [{"product_id": "watering-can", "title": "Zinc watering can"}]
    assert user["profile"]["categories"][0][0].startswith("Garden")
    assert any("bought 1" in sentence for sentence in user["profile"]["sentences"])
    with pytest.raises(NotFound, match="nothing is known of nobody"):
        await shop.perform("users.get", user_id="nobody")
    with pytest.raises(Invalid, match="either"):
        await shop.perform("users.get", user_id="a", anonymous_id="b")


async def test_recommendations_of_a_user_have_reasons(shop: AdminShop) -> None:
    recommended = await shop.perform("users.recommend", user_id="gina", limit=3)
    assert len(recommended["products"]) == 3
    assert all(product["why"]["reasons"] for product in recommended["products"])
    reasons = {product["product_id"]: product["why"]["reasons"] for product in recommended["products"]}
    assert reasons["crocus-bulbs"][0] == "Viewed or bought together with Forty tulip bulbs"
    assert all(len(set(sentences)) == len(sentences) for sentences in reasons.values())


def test_reasons_name_products_and_moves_of_rules_only() -> None:
    parts = {
        "learned:rules": 2.0,
        "learned:content_knn": 1.0,
        "live:content": 0.5,
        "learned:graph_filter": 0.4,
    }
    moves = [{"by": "made way for others", "from": 8, "to": 0}, {"by": "rule push", "from": 0, "to": 2}]
    product = {"product_id": "p", "_explain": {"score_parts": parts, "score": 3.9, "moves": moves}}
    title = "Hot Water Bottle"
    related = {"learned:rules": title, "learned:content_knn": title, "live:content": title}
    assert explain_product(product, related).reasons == (
        "Often bought after Hot Water Bottle", "Similar to Hot Water Bottle",
        "Chosen by users with a similar history", "Moved from position 1 to 3 by rule push",
    )  # fmt: skip
    assert explain_product(product).reasons[0] == "Often bought after products of this user"


async def test_users_are_searched_by_name_and_address_page_by_page(shop: AdminShop) -> None:
    names = [("Ada Lovelace", "ada@example.com"), ("Grace Hopper", "grace@example.org"), ("Adam Smith", "")]
    users = [
        {
            "user_id": f"u{number:02}",
            "name": name,
            "description": f"prefers {name[-1]}",
            "custom_attributes": {"e_mail": mail, "plan": "ada plan"},
        }
        for number, (name, mail) in enumerate(names * 4)
    ]
    answer = await shop.services.api.call(APP, "POST", "/v1/users", {"data": users})
    assert answer[0] == 200, answer
    await shop.corner.apply()

    async def search(text: str, **more: Any) -> list[str]:
        ids: list[str] = []
        cursor = ""
        for _ in range(20):
            page = await shop.perform(
                "users.search", role="analyst", text=text, after=cursor, limit=3, **more
            )
            ids += [user["user_id"] for user in page["users"]]
            cursor = page["next"]
            if not cursor:
                break
        return ids

    assert await search("ADA") == ["u00", "u02", "u03", "u05", "u06", "u08", "u09", "u11"]
    assert await search("hopper") == ["u01", "u04", "u07", "u10"]
    assert await search("grace@") == ["u01", "u04", "u07", "u10"]
    assert await search("ada lovelace", exact=True) == ["u00", "u03", "u06", "u09"]
    assert await search("ada@example.com", exact=True) == ["u00", "u03", "u06", "u09"]
    assert await search("r") == ["u01", "u04", "u07", "u10"]
    assert await search("PREFERS H") == ["u02", "u05", "u08", "u11"]
    assert await search("prefers h", exact=True) == []
    assert await search("lace") == await search("plan") == await search("ada", exact=True) == []
    rows = [row for row in shop.audit.rows if row.operation == "users.search"]
    assert rows
    assert all(row.arguments["text"] == "***" for row in rows)
    assert "lovelace" not in repr(shop.audit.rows)


@pytest.mark.parametrize(
    ("product_id", "words"),
    [
        ("tulip-bulbs", "viewed or bought it recently"),
        ("teapot", "not available"),
        ("never-made", "no such product"),
    ],
)
async def test_an_absent_product_has_a_reason(shop: AdminShop, product_id: str, words: str) -> None:
    explanation = await shop.perform("users.explain", user_id="gina", product_id=product_id)
    assert words in " ".join(explanation["sentences"])
    assert explanation["is_returned"] is False


async def test_a_filter_and_a_low_rank_are_reasons(shop: AdminShop) -> None:
    filtered = await shop.perform("users.explain", user_id="gina", product_id="bread-knife", fq="brand:Alder")
    assert "fq excludes it" in filtered["sentences"][0]
    low = await shop.perform("users.explain", user_id="gina", product_id="carving-knife", limit=1)
    assert "other products score higher" in " ".join(low["sentences"])
    assert len(low["instead"]) == 1


async def test_every_reason_of_the_engine_has_a_sentence() -> None:
    reasons = [
        {"reason": "returned"}, {"reason": "too_new"}, {"reason": "excluded"}, {"reason": "shown_before"},
        {"reason": "anchor", "told": "it is an anchor"}, {"reason": "same_group", "as": "b", "rank": 2},
        {"reason": "no_candidate", "told": "it was not ranked"}, {"reason": "of tomorrow"},
        {"reason": "below_the_cut", "rank": 9, "score": 0.25, "group": ["Garden", "Bulbs"]},
    ]  # fmt: skip
    sentences = describe_missing(reasons)
    assert len(sentences) == len(reasons)
    assert "rank 10 with the score 0.250, in the group Garden > Bulbs" in sentences[-1]


async def test_roles_bound_what_is_seen(shop: AdminShop) -> None:
    for name, arguments in (
        ("users.get", {"user_id": "gina"}), ("users.search", {}), ("users.recommend", {"user_id": "gina"}),
        ("try.recommend", {"variants": [{"user_id": "gina"}]}),
    ):  # fmt: skip
        with pytest.raises(Forbidden):
            await shop.perform(name, role="viewer", **arguments)
    for role in ("viewer", "analyst", "editor"):
        for name in ("users.erase", "users.export"):
            with pytest.raises(Forbidden):
                await shop.perform(name, role=role, user_id="gina")


async def test_two_variants_stand_side_by_side(shop: AdminShop) -> None:
    variants = [{"user_id": "gina", "rows": 2}, {"user_id": "otto", "rows": 0.5}]
    compared = await shop.perform("try.recommend", variants=variants)
    good, bad = compared["variants"]
    assert (good["status"], len(good["products"]), bad["status"]) == (200, 2, 422)
    assert bad["error"].startswith("rows")
    assert good["products"][0]["why"]["reasons"]
    assert shop.audit.rows == []
    with pytest.raises(Unprocessable):
        await shop.perform("try.recommend", variants=[{}] * 3)
    with pytest.raises(Unprocessable):
        await shop.perform("try.recommend", kind="../products", variants=[{}])


async def test_calls_to_copy_for_browsers_have_the_address_for_browsers(shop: AdminShop) -> None:
    addresses = AdminConfig(public_url="https://api.example.com", edge_url="https://edge.example.com")
    shop.services = replace(shop.services, config=addresses)
    (tried,) = (await shop.perform("try.recommend", variants=[{"user_id": "gina"}]))["variants"]
    hosts = {
        language: text.split("example.com/v1/")[0].rsplit("//", 1)[1]
        for language, text in tried["snippets"].items()
    }
    assert hosts == {"curl": "api.", "python": "api.", "javascript": "edge."}


async def test_a_question_is_tried_and_its_answer_read(shop: AdminShop) -> None:
    question = await shop.perform("try.ask", variants=[{"question": "Which knife cuts bread?"}])
    question_id = question["variants"][0]["answer"]["data"]["question_id"]
    answer = await shop.perform("try.answer", question_id=question_id)
    assert answer["answer"]["data"]["finish_reason"] in ("not_finished", "success", "error", "forbidden")
    with pytest.raises(NotFound):
        await shop.perform("try.answer", question_id="0190d2b4-7c1e-7000-8000-5f3a1c9d2e10")


async def test_searches_and_completions_are_tried(shop: AdminShop) -> None:
    search = await shop.perform("try.search", variants=[{"q": "knife", "facets": ["brand"]}])
    assert search["variants"][0]["answer"]["data"]["facet_counts"]
    typed = await shop.perform("try.complete", variants=[{"q": "kni"}])
    assert typed["variants"][0]["status"] == 200


def test_calls_to_copy_keep_hostile_text_as_data() -> None:
    hostile = {"q": "'; rm -rf / #</script>`$(x)` \"", "n": None}
    snippets = render_snippets("POST", "/v1/search/search", hostile)
    words = shlex.split(snippets["curl"].replace("\\\n", " "))
    assert words[-1].startswith("{")
    assert "rm -rf" in words[-1]
    call = ast.parse(snippets["python"]).body[1].value  # type: ignore[attr-defined]
    assert (
        ast.literal_eval(next(keyword.value for keyword in call.keywords if keyword.arg == "json")) == hostile
    )
    assert "</script>" not in snippets["javascript"]
    assert all("YOUR_SECRET_KEY" in text for text in snippets.values())


async def test_hostile_titles_stay_text(shop: AdminShop) -> None:
    title = "<img src=x onerror=alert(1)>"
    await upload(shop.services.stores, [{"product_id": "<b>", "title": title, "type": "tool"}])
    view = await shop.perform("catalog.get", product_id="<b>")
    assert view.product["title"] == title


async def test_a_person_is_exported_and_erased(shop: AdminShop) -> None:
    exported = await shop.perform("users.export", user_id="gina")
    assert exported.about["places"]["recent list"] > 0
    assert exported.to_lines().count(b"\n") == len(exported.rows) + 1
    read = shop.audit.rows[-1]
    assert (read.operation, read.arguments["user_id"], read.after) == ("users.export", "***", None)
    erasure = await shop.perform("users.erase", user_id="gina")
    assert (await shop.perform("users.erasure", erasure_id=erasure.erasure_id)).status == "queued"
    assert [receipt.erasure_id for receipt in await shop.perform("users.erasures")] == [erasure.erasure_id]
    row = shop.audit.rows[-1]
    assert (row.operation, row.arguments["user_id"]) == ("users.erase", "***")
    assert "gina" not in row.model_dump_json()


async def test_an_export_has_the_time_until_which_tokens_of_the_user_ended(shop: AdminShop) -> None:
    assert (await shop.perform("users.export", user_id="gina")).about["places"]["ended tokens"] == 0
    ended = await shop.perform("users.end_tokens", user_id="gina")
    exported = await shop.perform("users.export", user_id="gina")
    rows = [row for row in exported.rows if row["place"] == "ended tokens"]
    assert rows == [{"place": "ended tokens", "item": {"issued_until": ended.to_dict()["issued_until"]}}]
    for other in ({"user_id": "pia"}, {"anonymous_id": "visitor-9"}):
        assert (await shop.perform("users.export", **other)).about["places"]["ended tokens"] == 0


async def test_the_audit_log_does_not_name_the_user_of_a_linked_visitor(shop: AdminShop) -> None:
    linking = [("gina", "visitor-7", b"")]
    await shop.services.stores.interactions.append("shop", b"[]", linking)
    with pytest.raises(Conflict, match="gina"):
        await shop.perform("users.erase", anonymous_id="visitor-7")
    row = shop.audit.rows[-1]
    assert row.reason == "this visitor is linked to a user"
    assert "gina" not in row.model_dump_json()


async def test_the_end_of_tokens_needs_an_editor_and_names_nobody_in_the_audit_log(shop: AdminShop) -> None:
    with pytest.raises(Forbidden):
        await shop.perform("users.end_tokens", role="analyst", user_id="gina")
    ended = await shop.perform("users.end_tokens", role="editor", user_id="gina")
    now_ms = shop.corner.clock.now_ms()
    assert ended.to_dict() == {"app_id": "shop", "issued_until": iso_ms(now_ms)}
    times = (await shop.corner.stores.access.ended_tokens("shop", 0)).times
    assert list(times.values()) == [now_ms]
    assert "gina" not in shop.audit.rows[-1].model_dump_json()
