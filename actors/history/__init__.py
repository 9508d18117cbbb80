"""History: the threads of a user, and notifications about significant new content.

threads               rules for changes of a user's threads: pure functions
tracker               read threads, and apply the rules to the store, one change at a time
article_relevance     decide whether an article is news for a thread, with a score and a reason
watched_thread_index  find the threads that an article may concern
news_monitor          follow the uploads of one app and record news
notifier              ask a thread's question again and append the answer
loop                  run the monitors of all apps; host is its Ray actor
messages              requests and replies about threads
"""
