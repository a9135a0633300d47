"""The configuration of the run. What is measured with it is in shards.smk."""


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
    # All tables wait for it.
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.configure {input.request} {output} 2> {log}"
