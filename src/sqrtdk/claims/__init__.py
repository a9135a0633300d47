"""The engine that judges claims."""
