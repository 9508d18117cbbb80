"""The doors: HTTP in, HTTP out. They know who is asking and how to say no.

    edge/     what every door shares: who is calling, may they, how errors look
    api/      the REST interface
    hosts/    deployments without a route: recommenders with a place of their own

Each door is a Serve application of its own, so that redeploying one leaves the others' memory alone.
"""
