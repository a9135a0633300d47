"""One sub-package per experiment; `registry` lists them, `cells` measures their cells."""
