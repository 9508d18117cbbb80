"""What every process of an installation needs, without Ray.

connecting, artifact_access    open the stores and the artifact store of this installation
identity           does a process have the right master key?     identity_check, identity_start   when it is asked
signing_upgrade    signs manifests of an earlier release
installation_state what the supervisor tells the command line     progress, probe   of a start
processes, sockets, priority    of the operating system
disk, memory, training_memory   bounds, and the guards that refuse writes before they are reached
tracing            spans over OpenTelemetry
"""
