"""Use cases of the administration, shared by the command line, HTTP and the console, and the reports they show.

operation       what a use case is: name, right, place in HTTP, arguments, call
principal       who performs it, and what that person may do
services        what the use cases work on
administration  authorizes, validates, performs and records an operation
all_operations  the table of all use cases; each area has a file
"""
