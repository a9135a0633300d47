"""Tables, shards, code digests and provenance on disk."""
