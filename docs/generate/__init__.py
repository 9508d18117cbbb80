"""Generate the pages of `docs/reference` from the code.

    python -m docs.generate            write the pages
    python -m docs.generate --check    name the pages that differ from the code, and end with 1 if there are any

markdown        tables, anchors and code blocks
settings        `cluster.settings`
commands        the command line of `kiosk`
errors          classes and messages of errors, with the causes and remedies of `errors.toml`
metrics         the calls of `Meter` in the code, with the meanings of `metrics.toml`
rest            the OpenAPI document with its tested examples
pages           all pages by path

Nothing here imports Ray. A test of the house compares the pages with the committed ones.
"""
