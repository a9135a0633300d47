"""The operating system: locks, disks, memory, signals, streams, and errors as one line."""
