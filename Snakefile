"""From a grid of cells to the report: shards -> runs -> summary -> figures, claims -> report.

`snakemake` builds results/default/; `--config KEY=VALUE` changes the grid (README.md).
What is built from what stands here; how it is built is in src/sqrtdk/.
"""

from sqrtdk.workflow import Workflow, code

flow = Workflow(config)


onstart:
    flow.begin()


wildcard_constraints:
    experiment="[a-z_]+",
    shard="[^/]+",


localrules:
    all,


rule all:
    input:
        [f"{flow.folder}/{experiment}/summary.csv" for experiment in flow.experiments],
        [flow.shard_files(experiment) for experiment in flow.experiments],
        f"{flow.folder}/scaling/weights.csv",


rule configure:
    "Write the resolved configuration."
    input:
        flow.request,
    output:
        f"{flow.folder}/config.yaml",
    log:
        f"{flow.folder}/logs/configure.log",
    conda:
        "environment.yml"
    shell:
        "cp {input} {output} 2> {log}"


rule measure:
    "Compute one shard: some seeds and scale rules of one slab of the grid."
    input:
        lambda wildcards: code(f"sqrtdk.experiments.{wildcards.experiment}"),
    output:
        "results/shards/{experiment}/{shard}.csv",
    params:
        slab=flow.slab,
    log:
        "results/shards/{experiment}/{shard}.log",
    benchmark:
        "results/shards/{experiment}/{shard}.tsv"
    conda:
        "environment.yml"
    priority: 1
    shell:
        "python -m sqrtdk.experiments.{wildcards.experiment} {params.slab:q} {output:q} 2> {log:q}"


rule merge:
    "Collect the rows of the run's grid from its shards."
    input:
        config=rules.configure.output,
        shards=lambda wildcards: flow.shard_files(wildcards.experiment),
        code=code("sqrtdk.runs"),
    output:
        f"{flow.folder}/{{experiment}}/runs.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-merge.log",
    conda:
        "environment.yml"
    shell:
        "python -m sqrtdk.runs {input.config} {wildcards.experiment} {output} 2> {log}"


rule summarize:
    "Mean and interval over seeds for every metric."
    input:
        runs=rules.merge.output,
        code=code("sqrtdk.summary"),
    output:
        f"{flow.folder}/{{experiment}}/summary.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-summarize.log",
    conda:
        "environment.yml"
    shell:
        "python -m sqrtdk.summary {wildcards.experiment} {input.runs} {output} 2> {log}"


rule exemplify:
    "Keep a few real weight matrices whole."
    input:
        config=rules.configure.output,
        code=code("sqrtdk.examples"),
    output:
        f"{flow.folder}/scaling/weights.csv",
    log:
        f"{flow.folder}/logs/scaling-exemplify.log",
    conda:
        "environment.yml"
    shell:
        "python -m sqrtdk.examples {input.config} {output} 2> {log}"
