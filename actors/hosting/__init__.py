"""What every host needs that keeps the state of apps in memory.

loaded_apps                  apps on demand, within a memory budget
log_follower                 the loop that applies the change log
uncompacted_interactions     the interactions of the log that no segment holds yet, for reports
"""
