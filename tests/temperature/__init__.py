"""A small experiment as a newcomer adds it: CONTRIBUTING.md goes through it, a test builds it."""
