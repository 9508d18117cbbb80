"""What every process of an installation needs, without Ray.

store_connections, artifact_access  open the stores and the artifact store of this installation
installation_identity  does a process have the right master key?
installation_identity_check, identity_registration  check it
signing_upgrade    signs manifests of an earlier release
installation_state what the supervisor tells the command line     start_progress, probe   of a start
installation_processes   processes of one installation, no others     free_ports, priority   of this machine
disk_guard, redis_memory, training_memory_limit   bounds, and the guards that refuse writes before they are reached
tracing            spans over OpenTelemetry
"""
