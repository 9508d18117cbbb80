"""The doors: HTTP in, HTTP out. They know who is asking and how to say no.

    edge/     what every door shares: who is calling, may they, how errors look
    api/      the REST interface
    archive/  the news archive for AI agents: MCP and OAuth
    demo/     kiosk.js for web pages, and two demonstrations that use it
    front/    the replica that answers HTTP, with all doors in it
    hosts/    deployments without a route: recommenders with a place of their own

The doors share one Serve application and one process, because they share keys, stores and memory; what needs a place of
its own has one in `hosts`, so that redeploying the doors leaves its memory alone.
"""
