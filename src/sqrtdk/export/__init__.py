"""Write a run for other places: a page of a repository, an archive, a software catalogue."""
