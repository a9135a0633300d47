"""Independent draws of related vectors against their exact means."""
