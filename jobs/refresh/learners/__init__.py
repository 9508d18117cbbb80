"""Learners; each implements the protocol of `jobs.refresh.learners.protocol`.

ease graph_filter sequential_rules item_knn content_knn session_knn popularity repeat als    components of the blend
interaction_matrix sparse_weights                                     shared by several learners
baskets cohorts content_regression                                    learners outside the blend

registry       returns the learner of a component of a recipe; imports custom learners by name
conformance    checks a custom learner against the protocol
"""
