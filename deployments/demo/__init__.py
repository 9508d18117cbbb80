"""The script for web pages, `kiosk.js`, and two demonstrations that use the public API through nothing else.

    browser_script  serves the script under its versioned addresses
    routes          renders the demonstrations with the publishable key of the playground

The folder `static` holds the scripts and styles that a browser loads, `templates` the pages, and `releases` all
versions of the script.
"""
