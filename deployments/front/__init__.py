"""The replica that answers HTTP: opens stores, keys and actors once, and puts the doors before them.

app        the Serve application, and when it grows
gateway    everything a replica needs, made once inside it; the one place that knows all doors
"""
