"""Errors, the command line, locks, memory and disks."""
