"""Everything that learns. Each keeps the protocol of `jobs.refresh.learners.protocol`.

ease graph_filter rules item_knn content_knn session_knn popularity repeats als    parts of the blend
matrix neighbours                                                     what several of them share
baskets cold content                                                  learners of other questions

registry       from a part of a recipe to its learner; yours are imported by name
conformance    does a learner of yours keep the protocol?
"""
