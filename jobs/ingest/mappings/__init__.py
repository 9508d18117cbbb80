"""The mapping of columns to fields: rules, proposals by name and values, dates, rows joined to baskets."""
