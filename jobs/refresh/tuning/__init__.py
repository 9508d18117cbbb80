"""Choice of parameters and blend weights on validation.

candidate_items   the best items of each component, the only ones that a blend can rank first
blend_weights     hill climbing of the weights; each step needs a significant gain; components that
                  lower the NDCG on other users are removed
parameter_search  the parameters of one component
plan              turns a recipe with open parameters and weights into a settled one
part_outcomes     the result of each component, and the reason
split_selection   the split that suits the recipe and the data
"""
