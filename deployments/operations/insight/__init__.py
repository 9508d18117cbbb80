"""Use cases of figures: experiments, explanations, reports, tried requests, measurements and the overview."""
