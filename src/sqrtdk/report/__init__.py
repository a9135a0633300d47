"""One HTML page of a finished run, from the tables and figures in its folder.

`page` collects what the page shows: `words` has the text, `pivots` the compact tables, `gallery`
the figures (which `svg` makes safe), `files` the folder and the dictionary. The templates beside
them say how it looks. Nothing is computed here: every number is read from a table.
"""
