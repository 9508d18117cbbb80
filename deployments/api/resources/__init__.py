"""The endpoints of the API: one module for each group, with the parsing of bodies and the answers."""
