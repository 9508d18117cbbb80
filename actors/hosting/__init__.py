"""Following an app: what every host does that holds an app's state in memory and keeps it up with the change log.

held    apps on demand, within a memory budget
loop    reading the log for ever, whatever fails

unsettled    the interactions of the log that no segment holds yet, for reports
"""
