"""The `kiosk` command line: one module a command, each thin."""
