"""What the processes of one installation share.

identity           which installation a Redis belongs to     schema   what is stored, and the releases that run
leases             exclusive rights to do a job     limits   token buckets
live_metrics, replica_memory    what API replicas report
"""
