"""One HTML page of a finished run, from the tables and figures in its folder.

`page` collects what the page shows, `svg` brings figures into it, the templates beside them say
how it looks. Nothing is computed here: every number is read from a table.
"""
