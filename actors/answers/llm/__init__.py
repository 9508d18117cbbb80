"""A language model somewhere else: any server that speaks the OpenAI chat interface, never trusted and never needed.

terms      where it is, and how long it may take for what
address    which addresses may be spoken to
breaker    while it fails nobody waits for it
prompt     question and passages as messages; passages are data behind a fence
stream     server-sent events to pieces of text
writer     the `AnswerWriter` of an answer, out of all of them
"""
