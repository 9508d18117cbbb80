"""The news archive and the questions of its users.

user_questions     questions with their answers, and the queue of unfinished ones
question_bank      suggested questions     threads   saved history threads
log_stream         rows of logs on their way to the artifact store
client_rules       the publisher's rules for clients of the archive
article_revisions  corrected and withdrawn articles     publisher_keys   verify signed statements
article_reads      what agents read
"""
