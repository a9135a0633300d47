"""Tables, shards and provenance on disk."""
