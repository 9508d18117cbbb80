"""The script for web pages, `kiosk.js`, and two demonstrations that use the public API through nothing else.

    script    serves the script under its versioned addresses
    pages     renders the demonstrations with the publishable key of the playground
    routes    the routes of both

The folder `static` holds the scripts and styles that a browser loads, and `templates` the pages.
"""
