"""Walks the REST interface with a client that openapi-python-client generated: upload to experiment.

    python generated_client.py FOLDER URL SECRET_KEY       FOLDER holds the package kiosk_client

Prints what it found as one line of JSON. Runs in the environment of the generator, which has what the client needs.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from types import ModuleType
from typing import Any

_WAIT_S = 0.05
_TRIES = 400


def main(folder: str, url: str, key: str) -> None:
    """Walk."""
    sys.path.insert(0, folder)
    package = importlib.import_module("kiosk_client")
    models = importlib.import_module("kiosk_client.models")
    client = package.AuthenticatedClient(base_url=url, token=key, prefix="", auth_header_name="X-API-KEY")
    walk = Walk(client, models)
    walk.upload()
    report = {
        "recommended": walk.recommend(), "sought": walk.search(), "completed": walk.complete(),
        "answer": walk.ask(), "variant": walk.experiment(), "refused": walk.be_refused(),
    }  # fmt: skip
    print(json.dumps(report))


class Walk:
    """One visit with the generated client."""

    def __init__(self, client: Any, models: ModuleType) -> None:
        self._client = client
        self._models = models

    def _call(self, operation: str, *args: Any, body: Any = None) -> Any:
        group, _, name = operation.partition("/")
        module = importlib.import_module(f"kiosk_client.api.{group}.{name}")
        sent = {} if body is None else {"body": body}
        return module.sync(*args, client=self._client, **sent)

    def upload(self) -> None:
        """Store products and an interaction, and wait until the products are there."""
        models = self._models
        page = "<p>Tulip bulbs are planted 15 cm deep in light soil.</p>"
        products = [
            models.Product(product_id="trowel", title="Steel hand trowel", price=14.5),
            models.Product(product_id="fork", title="Steel hand fork", price=9.5),
            models.Product(product_id="guide", title="Planting bulbs", type_="article", html=page),
        ]
        task = self._call("products/products_upload", body=models.ProductUpload(data=products))
        for _ in range(_TRIES):
            state = self._call("products/products_status", task.data.task_id)
            if isinstance(state, models.TaskReply) and state.code == 200:
                break
            time.sleep(_WAIT_S)
        assert state.data.succeeded == 3
        kinds = models.ProductVisitInteractionType
        seen = models.ProductVisitInteraction(
            type_=kinds.PRODUCT_DETAIL_PAGE_VIEW, user_id="ada", product_ids=["trowel"], duration=30.0
        )
        assert (
            self._call("interactions/interactions_upload", body=models.InteractionUpload(data=[seen])).message
            == "success"
        )

    def recommend(self) -> list[str]:
        """Ask for products."""
        body = self._models.UserToProducts(user_id="ada", rows=1, fl=["title"])
        reply = self._call("recommendation/recommendation_user_to_products", body=body)
        assert 0 <= reply.data.products[0].field_personalization_score <= 1
        return [product["title"] for product in reply.data.products]

    def search(self) -> list[str]:
        """Search, with a typo and a facet."""
        facet = self._models.FacetField(field="type")
        body = self._models.SearchBody(q="trowl", rows=1, facets=[facet, "price"])
        reply = self._call("search/search_search", body=body)
        assert reply.data.spellcheck.spelling_errors
        return [product.product_id for product in reply.data.products]

    def complete(self) -> list[str]:
        """Complete a title."""
        reply = self._call("search/search_autocomplete", body=self._models.Autocomplete(q="steel tr"))
        return [completion.text for completion in reply.data.completions["title"]]

    def ask(self) -> str:
        """Ask a question and wait for the answer."""
        question = self._models.AskQuestion(question="How deep are tulip bulbs planted?")
        question_id = self._call("ask/ask_questions", body=question).data.question_id
        for _ in range(_TRIES):
            record = self._call("ask/ask_answer", question_id).data
            if record.finished:
                return str(record.answer)
            time.sleep(_WAIT_S)
        raise AssertionError("the answer was never finished")

    def experiment(self) -> str:
        """Create an experiment, start it, and meet it."""
        models = self._models
        draft = models.ExperimentDraft(
            name="Paywall",
            reports_exposure=True,
            variants=[
                models.ExperimentDraftVariant(name="three"),
                models.ExperimentDraftVariant(name="five"),
            ],
        )
        self._call("experiments/experiments_create", body=draft)
        self._call("experiments/experiments_start", "paywall")
        met = self._call(
            "experiments/experiments_event", "paywall", body=models.ExperimentBody(user_id="ada")
        )
        return str(met.variant.slug)

    def be_refused(self) -> str:
        """Send a filter that does not parse."""
        reply = self._call("search/search_search", body=self._models.SearchBody(q="*", fq="price:["))
        return ".".join(map(str, reply.detail[0].loc))


if __name__ == "__main__":
    main(*sys.argv[1:])
