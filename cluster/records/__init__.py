"""The stored nouns: pydantic models, frozen, one file a noun; no behaviour beyond validation.

access        App and ApiKey: who may knock at which data space
user product interaction      what callers upload; strict, closed
fields times attributes       what their fields are made of
upload        a whole upload body to accepted records, or to one message per bad record
accepted faults               the two outcomes: what is stored, and how refusals are worded
deletes       bodies that name what is to be deleted
event recent  what the recommender keeps of an interaction, and its packed form
json_limits   the one way in for JSON
schema        upload bodies as JSON schema
task engine   what the platform keeps about its own work
"""
