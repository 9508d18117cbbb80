"""Which parameters and weights are best, by validation.

candidates  short lists that hold whatever may come first under any weights
choose      the weights: small steps, each of which must be worth it
tune        the parameters of one part
plan        from a recipe with open questions to one without
"""
