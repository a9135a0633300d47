"""One module an experiment, all of one shape: KEYS, COLUMNS, `cells` (slab -> cells), `memory`."""
