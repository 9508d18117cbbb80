"""Public functions whose docstrings lack a section today. The lists only shrink."""

from __future__ import annotations

WITHOUT_SHAPES: frozenset[str] = frozenset(
    [
        "actors.language.latent_embedder.LatentEmbedder.arrays",
        "actors.retrieval.autocomplete.field_index.FieldIndex.plan_rebuild",
        "actors.retrieval.autocomplete.field_index.FieldIndexes.get_field",
        "actors.retrieval.autocomplete.field_index.FieldIndexes.plan_rebuild",
        "actors.retrieval.autocomplete.snapshot_format.arrays_from_index",
        "actors.retrieval.autocomplete.snapshot_format.index_from_arrays",
        "actors.retrieval.autocomplete.prefixes.PrefixIndex.find_range",
        "actors.retrieval.autocomplete.prefixes.PrefixIndex.of",
        "actors.retrieval.autocomplete.prefixes.popularity_ranks",
        "actors.retrieval.lexical.index_segments.IndexSegments.alive",
        "actors.retrieval.lexical.postings.Postings.arrays",
        "actors.retrieval.lexical.snapshot_format.load",
        "actors.retrieval.lexical.snapshot_format.save",
    ]
)
"Functions with arrays and without a Shapes section."

WITHOUT_ERRORS: frozenset[str] = frozenset(
    [
        "cluster.runtime.handover.main",
        "deployments.api.resources.history.store_errors_as_faults",
        "deployments.api.resources.questions.QuestionsResource.answer",
        "deployments.api.resources.records.RecordsResource.list_ids",
        "deployments.api.resources.records.RecordsResource.status",
        "deployments.api.resources.records.RecordsResource.upload",
        "deployments.api.wire.faults.refuse",
        "deployments.api.wire.faults.refuse_filter",
        "deployments.cli.apps.switch",
        "deployments.cli.clients.forget",
        "deployments.cli.doctor.doctor.doctor",
        "deployments.cli.engines.create",
        "deployments.cli.engines.place",
        "deployments.cli.evaluate.evaluate",
        "deployments.cli.experiments.edit",
        "deployments.cli.installation.Installation.open_stores",
        "deployments.cli.learners.conform",
        "deployments.cli.quarantine.drop",
        "deployments.cli.report.search",
        "deployments.cli.sbom.sbom",
        "deployments.cli.schedules.add",
        "deployments.cli.schedules.remove",
        "deployments.cli.train.train",
        "deployments.cli.up.up",
        "jobs.playground.cli.load",
    ]
)
"Functions that raise an error of ours that no Errors section names."
