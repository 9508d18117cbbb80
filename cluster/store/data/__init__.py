"""What clients write.

intake, tasks      accepted batches on their way to the records, and their outcome
records            users and products     change_log   the ordered stream of writes, one for each noun
interactions       recent lists and links of visitors; `append_plan` plans one append
idempotency        replies to repeated writes     imports   uploaded files
erasures           orders to erase a person; `person_traces` walks through all data of a person
salts              the secret salt of pseudonyms
"""
