"""The shards: what is measured, and what theory expects.

A job reads its slabs from a file that the run wrote before its first job. A job on another machine
has only the rules of this file.
"""

# No code as input: a shard's name ends in a digest of the code that measures. No parameters, and
# the same command in all rules: a shard is the same whichever of them has made it.


rule measure_shard:
    "Measure one shard: some seeds and scale rules of one slab of the grid."
    output:
        "results/shards/{experiment}/{shard}.csv",
    log:
        "results/shards/{experiment}/{shard}.log",
    benchmark:
        "results/shards/{experiment}/{shard}.tsv"
    priority:
        lambda wildcards: flow.priority(
            f"results/shards/{wildcards.experiment}/{wildcards.shard}.csv"
        )
    conda:
        "../envs/jobs.yml"
    threads:
        lambda wildcards: flow.shards.threads(
            f"results/shards/{wildcards.experiment}/{wildcards.shard}.csv",
            workflow.cores,
        )
    resources:
        mem_mb=lambda wildcards, attempt: flow.shards.mem_mb(
            f"results/shards/{wildcards.experiment}/{wildcards.shard}.csv", attempt
        ),
        runtime=lambda wildcards, attempt: flow.shards.runtime(
            f"results/shards/{wildcards.experiment}/{wildcards.shard}.csv", attempt
        ),
    shell:
        "python -m sqrtdk.jobs.shards {output:q} 2> {log:q}"


rule exact_shard:
    "Compute the exact expectations at one n_k."
    output:
        "results/shards/exact/{points}.csv",
    log:
        "results/shards/exact/{points}.log",
    benchmark:
        "results/shards/exact/{points}.tsv"
    priority: lambda wildcards: flow.priority(f"results/shards/exact/{wildcards.points}.csv")
    conda:
        "../envs/jobs.yml"
    resources:
        mem_mb=lambda wildcards, attempt: flow.shards.mem_mb(
            f"results/shards/exact/{wildcards.points}.csv", attempt
        ),
        runtime=lambda wildcards, attempt: flow.shards.runtime(
            f"results/shards/exact/{wildcards.points}.csv", attempt
        ),
    shell:
        "python -m sqrtdk.jobs.shards {output:q} 2> {log:q}"


# On a cluster. Snakemake prefers a rule without wildcards.
for job in flow.shards.batches:

    rule:
        name:
            job.rule
        output:
            job.outputs,
        log:
            job.log(".log"),
        benchmark:
            job.log(".tsv")
        priority: flow.priority(*job.outputs)
        conda:
            "../envs/jobs.yml"
        resources:
            mem_mb=job.mem_mb,
            runtime=job.runtime,
        shell:
            "python -m sqrtdk.jobs.shards {output:q} 2> {log:q}"


if not workflow.remote_exec:
    patches.share_resources(
        workflow, {job.rule: job.rule_alone for job in flow.shards.batches}
    )
