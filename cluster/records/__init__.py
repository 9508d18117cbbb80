"""Define the stored records as frozen pydantic models; each file has one record and its parts, and validates
only.

access        App and ApiKey: which keys open which data space
user product interaction      what callers upload; strict, closed
fields times attributes       types that their fields share
validation/   upload bodies to accepted records, or to one message for each invalid record
intake engine run experiment ...   records of the platform's own work
"""
