"""Define the stored records as frozen pydantic models; each file has one record and its parts, and validates
only.

apps, api_keys               data spaces, and the keys that open them
user, product, interaction   what callers upload; strict, closed
field_types/                 types that their fields share
validation/                  upload bodies to accepted records, or to one message for each invalid record
archive/                     feeds and articles, terms, and clients of the archive

The other files have records of the platform's own work: the intake, engines, runs, experiments, questions.
"""
