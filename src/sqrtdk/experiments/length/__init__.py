"""The power of log n that keeps attention as selective at every length."""
