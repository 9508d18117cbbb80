"""Finding passages: what an archive holds about a question.

messages    what is asked and what comes back
client      how doors reach the host
host        the shell: apps on demand, the change log followed, thinking off the event loop
"""
