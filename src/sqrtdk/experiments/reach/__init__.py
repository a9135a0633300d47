"""How far back gradients reach, for a fixed vector and for attention."""
