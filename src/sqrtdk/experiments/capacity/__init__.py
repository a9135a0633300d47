"""The capacity of a fixed vector, against the size of the state."""
