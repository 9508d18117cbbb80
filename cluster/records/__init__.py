"""The stored nouns: pydantic models, frozen, one file a noun; no behaviour beyond validation.

    access        App and ApiKey: who may knock at which data space
    user product interaction      what callers upload; strict, with the reference's own error grammar
    upload        a whole upload body to accepted records or one message per bad record
    task engine   what the platform keeps about its own work
"""
