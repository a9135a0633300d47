"""The configuration: composed, checked and resolved."""
