"""The spread of the logits in a freshly initialised layer of attention."""
