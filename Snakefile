"""From a grid of cells to the report: shards -> runs -> summary -> figures, claims -> report.

`snakemake` builds results/default/; `--config KEY=VALUE` changes the grid (README.md).
What is built from what stands here; how it is built is in src/sqrtdk/.
"""

from pathlib import Path

from sqrtdk.workflow import Workflow, code, pages

flow = Workflow(config, workflow.configfiles)


onstart:
    flow.begin()


wildcard_constraints:
    experiment="[a-z_]+",
    shard="[^/]+",


localrules:
    all,
    scaling,
    configure,
    merge,
    summarize,
    exemplify,
    draw,
    judge,
    trace,
    publish,


rule all:
    "The whole run: tables, figures, claims and the report."
    input:
        f"{flow.folder}/report.html",
        # A deleted shard is made again, also while the tables made from it look fresh.
        [flow.shard_files(experiment) for experiment in flow.experiments],


rule scaling:
    "Tables and figures of the scaling experiment."
    input:
        f"{flow.folder}/scaling/summary.csv",
        flow.figures("scaling"),
        flow.shard_files("scaling"),


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
    log:
        "results/shards/{experiment}/{shard}.log",
    benchmark:
        "results/shards/{experiment}/{shard}.tsv"
    conda:
        "environment.yml"
    params:
        slab=flow.slab,
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


rule draw:
    "Every figure of the scaling experiment, as SVG and PNG."
    input:
        summary=f"{flow.folder}/scaling/summary.csv",
        weights=rules.exemplify.output,
        code=code("sqrtdk.figures.scaling"),
    output:
        [
            report(
                figure,
                category="Scaling",
                caption=f"src/sqrtdk/report/captions/{Path(figure).stem}.rst",
                labels={"figure": Path(figure).stem},
            )
            for figure in flow.figures("scaling")
        ],
        [str(Path(figure).with_suffix(".png")) for figure in flow.figures("scaling")],
    log:
        f"{flow.folder}/logs/scaling-draw.log",
    conda:
        "environment.yml"
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "python -m sqrtdk.figures.scaling {input.summary} {input.weights} {params.folder} 2> {log}"


rule judge:
    "The verdict on each sentence of the chapter."
    input:
        config=rules.configure.output,
        summary=f"{flow.folder}/scaling/summary.csv",
        code=code("sqrtdk.claims"),
    output:
        f"{flow.folder}/claims.csv",
    log:
        f"{flow.folder}/logs/judge.log",
    conda:
        "environment.yml"
    shell:
        "python -m sqrtdk.claims {input.config} {input.summary} {output} 2> {log}"


rule trace:
    "Where the tables come from: code, versions, machine, command and digests."
    input:
        tables=[
            f"{flow.folder}/scaling/runs.csv",
            f"{flow.folder}/scaling/summary.csv",
            f"{flow.folder}/claims.csv",
        ],
        code=code("sqrtdk.provenance"),
    output:
        f"{flow.folder}/provenance.json",
    log:
        f"{flow.folder}/logs/trace.log",
    conda:
        "environment.yml"
    shell:
        'python -m sqrtdk.provenance {output} "$SQRTDK_COMMAND" {input.tables} 2> {log}'


rule publish:
    "The report: one page that works offline."
    input:
        config=rules.configure.output,
        claims=rules.judge.output,
        provenance=rules.trace.output,
        summary=f"{flow.folder}/scaling/summary.csv",
        figures=rules.draw.output,
        code=code("sqrtdk.report.__main__"),
        pages=pages(),
    output:
        f"{flow.folder}/report.html",
    log:
        f"{flow.folder}/logs/publish.log",
    conda:
        "environment.yml"
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "python -m sqrtdk.report {params.folder} 2> {log}"
