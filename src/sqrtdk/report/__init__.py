"""Build the HTML page of a finished run from the tables and figures in its folder.

`page` collects the content: `prose` has the text, `pivots` the compact tables, `gallery` the
figures (which `svg` makes safe), `dictionary` the files and columns. The templates in this folder
define the layout. Nothing is computed here: every number is read from a table.
"""
