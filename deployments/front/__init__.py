"""The API replica: opens stores, keys and hosts once, and serves HTTP with them.

app                the Serve applications and their autoscaling
gateway            creates everything an API replica needs, once per replica
admin_routes       the console and the administration over HTTP
import_processes   processes that import uploaded files
preview_processes  processes that look at uploaded files
node_anchor        a replica without work
"""
