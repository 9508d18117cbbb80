"""From the files of a snapshot to models: which learners may run, and checks of what they stored."""
