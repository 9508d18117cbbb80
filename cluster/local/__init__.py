"""One machine: the supervisor runs Redis, HAProxy and Ray. Only the command line imports this folder."""
