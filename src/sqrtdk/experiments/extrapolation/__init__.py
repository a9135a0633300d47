"""A head trained at few keys and asked at many, with scales that depend on the length."""
