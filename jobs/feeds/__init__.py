"""Feeds of publishers: polled politely, and followed for updates, corrections and removals.

robots      rules of a host for robots (RFC 9309)
polite_fetcher  one request at a time for each host, with pauses, redirects and bounds
article_addresses  equal addresses of one article, and its id
entry       one entry of a feed
article_page  the article of a web page
writer      articles into the app, by the way of every upload
poll        one poll of one feed
poller      polls of all feeds, one poller for the installation
"""
