"""The stored nouns: pydantic models, frozen, one file a noun; no behaviour beyond validation.

access        App and ApiKey: which keys open which data space
user product interaction      what callers upload; strict, closed
fields times attributes links types that their fields share
validation/   upload bodies to accepted records, or to one message for each invalid record
recent_event  the packed form of an interaction in a recent list
task engine run schedule promotion experiment ...   records of the platform's own work
"""
