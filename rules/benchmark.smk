"""How fast it is, and what it needs."""


localrules:
    benchmark,
    benchmark_part,
    benchmark_report,


wildcard_constraints:
    part="|".join(PARTS),


rule benchmark_part:
    "Measure one part: a race, memory, jobs, starting, the whole run."
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
        "../envs/jobs.yml"
    # Nothing else may run at the same time.
    threads: workflow.cores
    shell:
        "python -m benchmarks.measure {wildcards.part} {output.rounds} 2> {log}"


rule benchmark_report:
    "The page of the benchmarks, its figure and its table."
    input:
        rounds=expand(rules.benchmark_part.output.rounds, part=PARTS),
        machine=expand(rules.benchmark_part.output.machine, part=PARTS),
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
        "../envs/jobs.yml"
    shell:
        "python -m benchmarks.page {input.rounds} {output.table} {output.figure} {output.page}"
        " 2> {log}"


rule benchmark:
    "Measure speed and memory, and write docs/performance.md."
    input:
        rules.benchmark_report.output,
    log:
        "results/benchmarks/benchmark.log",
    conda:
        "../envs/jobs.yml"
    shell:
        # Not as outputs, which Snakemake deletes before it makes them: they are in the repository.
        "cp {input} docs/ 2> {log}"
