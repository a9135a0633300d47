"""From a grid of cells to the report: shards -> runs -> summary -> figures, claims -> report.

`snakemake` builds results/default/; `--config KEY=VALUE` changes the grid (README.md).
This file defines the inputs and outputs of each step; the code is in src/sqrtdk/.
"""

import os
import sys
from pathlib import Path

# The code next to this file, whatever is installed. A wheel carries this file in the package.
SOURCE = Path(workflow.basedir, "src")
if not SOURCE.is_dir():
    SOURCE = Path(workflow.basedir).parent
EXPERIMENTS = os.path.relpath(SOURCE / "sqrtdk" / "experiments", workflow.basedir)
sys.path.insert(0, str(SOURCE))

import sqrtdk

if not Path(sqrtdk.__file__).samefile(SOURCE / "sqrtdk" / "__init__.py"):
    # Snakemake has already loaded the log handler, and with it the code of another folder.
    sys.exit(
        f"sqrtdk: this environment has the code of {Path(sqrtdk.__file__).parents[2]}, not of "
        f"{workflow.basedir}; run `python3 run.py`, which uses the code of its own folder"
    )

try:
    from sqrtdk.workflow.targets import (
        PARTS,
        Workflow,
        benchmarks,
        code,
        pages,
        prose,
        reference,
    )

    flow = Workflow(config, workflow.configfiles)
except ModuleNotFoundError as error:
    sys.exit(
        f"sqrtdk: Snakemake's environment does not have the package {error.name}; run "
        "`python3 run.py`, which installs all packages, or create that of environment.yml"
    )

# Workflow sets both variables; in a conda environment, Snakemake removes PYTHONPATH.
shell.prefix("set -euo pipefail; export PYTHONPATH=${{PYTHONPATH:-$SQRTDK_SOURCE}}; ")


onstart:
    flow.begin()


wildcard_constraints:
    experiment="|".join(flow.experiments),
    shard="[^/]+",
    points="[^/]+",
    part="|".join(PARTS),


localrules:
    all,
    configure,
    merge,
    contrast,
    curve,
    summarize,
    exemplify,
    spread,
    cross,
    grade,
    rate,
    twin,
    widen,
    judge,
    answer,
    trace,
    publish,
    verify,
    benchmark,
    time,
    report_speed,


rule all:
    "Build everything: tables, figures, claims and the report."
    input:
        [
            f"{flow.folder}/{file}"
            for file in (
                "report.html",
                "config.yaml",
                "claims.csv",
                "questions.csv",
                "provenance.json",
            )
        ],
        [flow.files(experiment) for experiment in flow.experiments],


rule configure:
    "Write the resolved configuration."
    input:
        request=flow.request,
        code=code("sqrtdk.jobs.configure"),
    output:
        f"{flow.folder}/config.yaml",
    log:
        f"{flow.folder}/logs/configure.log",
    benchmark:
        f"{flow.folder}/logs/configure.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.configure {input.request} {output} 2> {log}"


rule measure:
    "Measure one shard: some seeds and scale rules of one grid point."

    # The code is not an input: a shard's name ends in a digest of it.
    output:
        "results/shards/{experiment}/{shard}.csv",
    log:
        "results/shards/{experiment}/{shard}.log",
    benchmark:
        "results/shards/{experiment}/{shard}.tsv"
    conda:
        "envs/jobs.yml"
    threads: lambda wildcards: flow.threads(wildcards, workflow.cores)
    params:
        slab=flow.slab,
    shell:
        "python -m sqrtdk.experiments.{wildcards.experiment}.measure {params.slab:q} {output:q} 2> {log:q}"


rule expect:
    "Compute the exact expectations at one n_k."
    output:
        "results/shards/exact/{points}.csv",
    log:
        "results/shards/exact/{points}.log",
    benchmark:
        "results/shards/exact/{points}.tsv"
    conda:
        "envs/jobs.yml"
    params:
        points=flow.points,
    shell:
        "python -m sqrtdk.jobs.expect {params.points:q} {output:q} 2> {log:q}"


rule merge:
    "Collect the rows of the run's grid from its shards."
    input:
        config=rules.configure.output,
        shards=lambda wildcards: flow.measured(wildcards.experiment),
        code=code("sqrtdk.jobs.merge"),
    output:
        f"{flow.folder}/{{experiment}}/runs.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-merge.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-merge.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.merge {input.config} {wildcards.experiment} {output} 2> {log}"


rule contrast:
    "Compute ratios of scale rules on the same draws, with paired intervals."
    input:
        config=rules.configure.output,
        runs=rules.merge.output,
        code=code("sqrtdk.jobs.contrasts"),
    output:
        f"{flow.folder}/{{experiment}}/contrasts.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-contrast.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-contrast.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.contrasts {input.config} {wildcards.experiment}"
        " {input.runs} {output} 2> {log}"


rule curve:
    "Collect the exact curves of every metric that theory covers."
    input:
        config=rules.configure.output,
        shards=lambda wildcards: flow.expected(wildcards.experiment),
        code=code("sqrtdk.jobs.exact_curves"),
    output:
        f"{flow.folder}/{{experiment}}/exact.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-curve.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-curve.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.exact_curves {input.config} {wildcards.experiment} {output} 2> {log}"


rule summarize:
    "Compute mean, interval over seeds and exact value of every metric."
    input:
        config=rules.configure.output,
        runs=rules.merge.output,
        exact=rules.curve.output,
        code=code("sqrtdk.jobs.summarize"),
    output:
        f"{flow.folder}/{{experiment}}/summary.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-summarize.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-summarize.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.summarize {input.config} {wildcards.experiment}"
        " {input.runs} {input.exact} {output} 2> {log}"


rule exemplify:
    "Write a few complete weight matrices."
    input:
        config=rules.configure.output,
        code=code("sqrtdk.jobs.weights"),
    output:
        f"{flow.folder}/scaling/weights.csv",
    log:
        f"{flow.folder}/logs/scaling-exemplify.log",
    benchmark:
        f"{flow.folder}/logs/scaling-exemplify.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.weights {input.config} {output} 2> {log}"


rule spread:
    "Measure how the gradient is distributed over rows."
    input:
        config=rules.configure.output,
        code=code("sqrtdk.jobs.tails"),
    output:
        f"{flow.folder}/scaling/tails.csv",
    log:
        f"{flow.folder}/logs/scaling-spread.log",
    benchmark:
        f"{flow.folder}/logs/scaling-spread.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.tails {input.config} {output} 2> {log}"


rule grade:
    "Measure the weight of keys against their cosine with the query."
    input:
        config=rules.configure.output,
        code=code("sqrtdk.jobs.cosines"),
    output:
        f"{flow.folder}/related/cosines.csv",
    log:
        f"{flow.folder}/logs/related-grade.log",
    benchmark:
        f"{flow.folder}/logs/related-grade.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.cosines {input.config} {output} 2> {log}"


rule cross:
    "Find the d_k above which a curve without scaling stays below its threshold."
    input:
        config=rules.configure.output,
        summary=f"{flow.folder}/scaling/summary.csv",
        contrasts=f"{flow.folder}/scaling/contrasts.csv",
        code=code("sqrtdk.jobs.crossings"),
    output:
        f"{flow.folder}/scaling/crossings.csv",
    log:
        f"{flow.folder}/logs/scaling-cross.log",
    benchmark:
        f"{flow.folder}/logs/scaling-cross.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.crossings {input.config} {input.summary} {input.contrasts} {output}"
        " 2> {log}"


rule rate:
    "Compute steps to 90 % at every learning rate, and at the best one."
    input:
        config=rules.configure.output,
        runs=f"{flow.folder}/training/runs.csv",
        code=code("sqrtdk.jobs.rates"),
    output:
        f"{flow.folder}/training/rates.csv",
    log:
        f"{flow.folder}/logs/training-rate.log",
    benchmark:
        f"{flow.folder}/logs/training-rate.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.rates {input.config} {input.runs} {output} 2> {log}"


rule twin:
    "Train equivalent runs without scaling, from smaller weights."
    input:
        config=rules.configure.output,
        runs=rules.rate.input.runs,
        rates=rules.rate.output,
        code=code("sqrtdk.jobs.equivalence"),
    output:
        f"{flow.folder}/training/twins.csv",
    log:
        f"{flow.folder}/logs/training-twin.log",
    benchmark:
        f"{flow.folder}/logs/training-twin.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.equivalence {input.config} {input.runs} {input.rates} {output} 2> {log}"


rule widen:
    "Compute steps to 90 % at each score width, at rates chosen on other seeds."
    input:
        config=rules.configure.output,
        runs=f"{flow.folder}/score_width/runs.csv",
        code=code("sqrtdk.jobs.widths"),
    output:
        f"{flow.folder}/score_width/widths.csv",
    log:
        f"{flow.folder}/logs/score_width-widen.log",
    benchmark:
        f"{flow.folder}/logs/score_width-widen.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.widths {input.config} {input.runs} {output} 2> {log}"


for experiment in flow.experiments:

    rule:
        name:
            experiment
        input:
            flow.wanted(experiment),
        localrule: True

    rule:
        name:
            f"draw_{experiment}"
        input:
            tables=flow.tables(experiment),
            code=code(f"sqrtdk.experiments.{experiment}.figures"),
        output:
            [
                report(
                    figure,
                    category=experiment,
                    caption=f"{EXPERIMENTS}/{experiment}/captions/{Path(figure).stem}.rst",
                    labels={"figure": Path(figure).stem},
                )
                for figure in flow.figures(experiment)
            ],
            [
                str(Path(figure).with_suffix(".png"))
                for figure in flow.figures(experiment)
            ],
        log:
            f"{flow.folder}/logs/{experiment}-draw.log",
        benchmark:
            f"{flow.folder}/logs/{experiment}-draw.tsv"
        localrule: True
        conda:
            "envs/jobs.yml"
        params:
            module=f"sqrtdk.experiments.{experiment}.figures",
            tables=subpath(input[0], parent=True),
            figures=subpath(output[0], parent=True),
        shell:
            "python -m {params.module} {params.tables} {params.figures} 2> {log}"


rule judge:
    "Judge the statements of the chapter and ours."
    input:
        config=rules.configure.output,
        tables=flow.judging(),
        code=code("sqrtdk.jobs.judge"),
    output:
        f"{flow.folder}/claims.csv",
    log:
        f"{flow.folder}/logs/judge.log",
    benchmark:
        f"{flow.folder}/logs/judge.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.judge {input.config} {input.tables} {output} 2> {log}"


rule answer:
    "Answer the chapter's concept check from the tables."
    input:
        config=rules.configure.output,
        claims=rules.judge.output,
        tables=flow.answering(),
        code=code("sqrtdk.jobs.answer"),
    output:
        f"{flow.folder}/questions.csv",
    log:
        f"{flow.folder}/logs/answer.log",
    benchmark:
        f"{flow.folder}/logs/answer.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.answer {input.config} {output} 2> {log}"


rule trace:
    "Record code, versions, machine, command and digests of the tables."
    input:
        tables=[
            *[f"{flow.folder}/{name}/runs.csv" for name in flow.experiments],
            *flow.summaries(),
        ],
        claims=rules.judge.output,
        code=code("sqrtdk.jobs.trace"),
    output:
        f"{flow.folder}/provenance.json",
    log:
        f"{flow.folder}/logs/trace.log",
    benchmark:
        f"{flow.folder}/logs/trace.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        'python -m sqrtdk.jobs.trace {output} "$SQRTDK_COMMAND" {input.tables} {input.claims}'
        " 2> {log}"


rule publish:
    "Write the report, one page that works offline."
    input:
        claims=rules.judge.output,
        questions=rules.answer.output,
        provenance=rules.trace.output,
        tables=[flow.tables(name) for name in flow.experiments],
        figures=[flow.figures(name) for name in flow.experiments],
        code=prose("sqrtdk.report.__main__"),
        pages=pages(),
    output:
        f"{flow.folder}/report.html",
    log:
        f"{flow.folder}/logs/publish.log",
    benchmark:
        f"{flow.folder}/logs/publish.tsv"
    conda:
        "envs/jobs.yml"
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "python -m sqrtdk.report {params.folder} 2> {log}"


rule verify:
    "Compare the run's numbers with those of the reference machine."
    input:
        config=rules.configure.output,
        runs=flow.verified(),
        code=code("sqrtdk.jobs.verify"),
        reference=reference(),
    log:
        f"{flow.folder}/logs/verify.log",
    conda:
        "envs/jobs.yml"
    params:
        folder=flow.folder,
    shell:
        "python -m sqrtdk.jobs.verify {params.folder} 2>&1 | tee {log}"


rule time:
    "Measure one part: speed, memory, jobs, start-up or a whole run."
    input:
        code=lambda wildcards: benchmarks(wildcards.part),
    output:
        rounds="results/benchmarks/{part}.csv",
        machine="results/benchmarks/{part}.json",
    log:
        "results/benchmarks/{part}.log",
    benchmark:
        "results/benchmarks/{part}.tsv"
    conda:
        "envs/jobs.yml"
    # Nothing else may run at the same time.
    threads: workflow.cores
    shell:
        "python -m benchmarks.measure {wildcards.part} {output.rounds} 2> {log}"


rule report_speed:
    "Write the benchmark page, its figure and its table."
    input:
        rounds=expand(rules.time.output.rounds, part=PARTS),
        machine=expand(rules.time.output.machine, part=PARTS),
        code="benchmarks/page.py",
        page="benchmarks/performance.md.j2",
    output:
        table="results/benchmarks/benchmarks.csv",
        figure="results/benchmarks/performance.png",
        page="results/benchmarks/performance.md",
    log:
        "results/benchmarks/page.log",
    benchmark:
        "results/benchmarks/page.tsv"
    conda:
        "envs/jobs.yml"
    shell:
        "python -m benchmarks.page {input.rounds} {output.table} {output.figure} {output.page}"
        " 2> {log}"


rule benchmark:
    "Measure speed and memory, and write docs/performance.md."
    input:
        rules.report_speed.output,
    log:
        "results/benchmarks/benchmark.log",
    conda:
        "envs/jobs.yml"
    shell:
        # Not outputs, because Snakemake would delete these tracked files before the rule runs.
        "cp {input} docs/ 2> {log}"
