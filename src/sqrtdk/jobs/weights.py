"""Write weights.csv."""

from sqrtdk.experiments.scaling.weights import COLUMNS, weights
from sqrtdk.jobs.derive import main

if __name__ == "__main__":
    main(weights, COLUMNS)
