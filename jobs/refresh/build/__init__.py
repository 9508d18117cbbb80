"""From a settled recipe to a snapshot.

fit                      trains every part
completions searching    products, indexed beside what was learned
build                    writes the folder, all or nothing, and reads it back
"""
