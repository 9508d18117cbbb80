"""Learners; each implements the protocol of `jobs.refresh.learners.protocol`.

neighbours/             components of the blend whose model is a matrix of weights between items, and baskets
session_knn, popularity, repeat, als, transformer     more components of the blend
cohorts, content_regression, reranker                 learners outside the blend
interaction_matrix, training_progress                 shared by several learners
item_sampler, packed_sequences, transformer_steps     parts of the transformer

registry       returns the learner of a component of a recipe; imports custom learners by name
conformance    checks a custom learner against the protocol
"""
