"""From candidates to a page: exploration, dithering, boosts, diversity, groups."""
