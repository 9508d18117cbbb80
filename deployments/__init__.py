"""HTTP in, HTTP out, and the command line: who calls, may they, and what is refused.

    edge/        what every interface shares: keys, tokens, limits, error bodies
    api/         the REST interface
    archive/     the news archive for AI agents: MCP and OAuth
    operations/  the use cases of the administration
    admin/       these use cases over HTTP
    console/     these use cases as web pages
    demo/        kiosk.js for web pages, and two demonstrations that use it
    front/       the API replica, which answers for all of these
    hosts/       deployments without a route: dedicated engines
    cli/         the command `kiosk`

One Serve application holds all interfaces in one process, because they share keys, stores and memory. A dedicated
engine is a deployment of its own in `hosts`, so a redeployment of the API leaves its memory alone.
"""
