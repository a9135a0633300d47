"""Scale rules for vectors that are related."""
