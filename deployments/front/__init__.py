"""The API replica: opens stores, keys and hosts once, and serves HTTP with them.

app        the Serve application and its autoscaling
gateway    creates everything an API replica needs, once per replica
"""
