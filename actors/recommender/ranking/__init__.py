"""From the user of a query to the candidates of a list: profile, scores, filters, the best rows."""
