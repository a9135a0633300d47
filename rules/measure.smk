"""From the configuration to the shards: what is measured and what theory expects."""


localrules:
    write_config,


rule write_config:
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
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.configure {input.request} {output} 2> {log}"


rule measure_shard:
    "Measure one shard: some seeds and scale rules of one slab of the grid."

    # No code as input: a shard's name ends in a digest of the code that measures.
    output:
        "results/shards/{experiment}/{shard}.csv",
    log:
        "results/shards/{experiment}/{shard}.log",
    benchmark:
        "results/shards/{experiment}/{shard}.tsv"
    priority: lambda wildcards: flow.priority(wildcards)
    conda:
        "../envs/jobs.yml"
    threads: lambda wildcards: flow.threads(wildcards, workflow.cores)
    params:
        slab=flow.slab,
    shell:
        "python -m sqrtdk.jobs.measure {wildcards.experiment} {params.slab:q} {output:q} 2> {log:q}"


rule exact_shard:
    "Compute the exact expectations at one n_k."
    output:
        "results/shards/exact/{points}.csv",
    log:
        "results/shards/exact/{points}.log",
    benchmark:
        "results/shards/exact/{points}.tsv"
    priority: lambda wildcards: flow.exact_priority(wildcards)
    conda:
        "../envs/jobs.yml"
    params:
        points=flow.points,
    shell:
        "python -m sqrtdk.jobs.expect {params.points:q} {output:q} 2> {log:q}"
