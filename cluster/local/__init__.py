"""One machine: the supervisor keeps Redis, HAProxy and Ray running. Only the command line imports this folder."""
