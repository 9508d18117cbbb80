"""What every host needs that keeps the state of apps in memory.

loaded_apps                  apps on demand, within the memory_budget of the process
log_follower                 the loop that applies the change log
job_lease                    the exclusive right of one process to do a job
uncompacted_interactions     the interactions of the log that no segment holds yet, for reports
purchase_values              the share of each product in the revenue of a purchase
"""
