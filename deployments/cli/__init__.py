"""The `kiosk` command line: one module a command or group of commands, each thin.

command_line         puts the commands together and imports those that the first word needs
subprocess_commands  commands whose work lies in another package
framework     the installation of a command and what all commands print
installation  up, down, status, logs, backup, upgrade, existing Ray clusters     doctor   `kiosk doctor`
training      train, evaluate, promote, engines, runs, schedules, learners
content       products, rules, quarantine, export, recommend, forget
access        apps, keys, users, tokens, clients     insight   experiments, reports, the audit log
"""
