"""From the shards to the tables: runs, summaries, derived tables, claims and answers."""


localrules:
    merge,
    contrasts,
    exact_table,
    summarize,
    derive,
    claims,
    questions,


rule merge:
    "Collect the rows of the run's grid from its shards."
    input:
        config=rules.write_config.output,
        shards=lambda wildcards: flow.measured(wildcards.experiment),
        code=lambda wildcards: flow.code("merge", wildcards.experiment),
    output:
        f"{flow.folder}/{{experiment}}/runs.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-merge.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-merge.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.merge {input.config} {wildcards.experiment} {output} 2> {log}"


rule contrasts:
    "Ratios of scale rules that share their draws, with paired intervals."
    input:
        config=rules.write_config.output,
        runs=rules.merge.output,
        code=lambda wildcards: flow.code("contrasts", wildcards.experiment),
    output:
        f"{flow.folder}/{{experiment}}/contrasts.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-contrast.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-contrast.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.contrasts {input.config} {wildcards.experiment}"
        " {input.runs} {output} 2> {log}"


rule exact_table:
    "Collect the exact curves of every metric that theory covers."
    input:
        config=rules.write_config.output,
        shards=lambda wildcards: flow.expected(wildcards.experiment),
        code=lambda wildcards: flow.code("exact_curves", wildcards.experiment),
    output:
        f"{flow.folder}/{{experiment}}/exact.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-curve.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-curve.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.exact_curves {input.config} {wildcards.experiment} {output} 2> {log}"


rule summarize:
    "Mean and interval over seeds for every metric, and the exact value."
    input:
        config=rules.write_config.output,
        runs=rules.merge.output,
        exact=rules.exact_table.output,
        code=lambda wildcards: flow.code("summarize", wildcards.experiment),
    output:
        f"{flow.folder}/{{experiment}}/summary.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-summarize.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-summarize.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.summarize {input.config} {wildcards.experiment}"
        " {input.runs} {input.exact} {output} 2> {log}"


rule derive:
    "Write a derived table of an experiment."
    input:
        config=rules.write_config.output,
        tables=flow.needed,
        code=flow.derived_code,
    output:
        f"{flow.folder}/{{experiment}}/{{table}}.csv",
    log:
        f"{flow.folder}/logs/{{experiment}}-{{table}}.log",
    benchmark:
        f"{flow.folder}/logs/{{experiment}}-{{table}}.tsv"
    wildcard_constraints:
        table=flow.derived,
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.derive {input.config} {wildcards.experiment}/{wildcards.table} {output} 2> {log}"


rule claims:
    "The verdict on each sentence of the chapter."
    input:
        config=rules.write_config.output,
        tables=flow.judging(),
        code=flow.common_code("judge", "claims"),
    output:
        f"{flow.folder}/claims.csv",
    log:
        f"{flow.folder}/logs/judge.log",
    benchmark:
        f"{flow.folder}/logs/judge.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.judge {input.config} {input.tables} {output} 2> {log}"


rule questions:
    "The chapter's concept check and questions beyond it, answered from the tables."
    input:
        config=rules.write_config.output,
        claims=rules.claims.output,
        tables=flow.answering(),
        code=flow.common_code("answer", "questions", "asked"),
    output:
        f"{flow.folder}/questions.csv",
    log:
        f"{flow.folder}/logs/answer.log",
    benchmark:
        f"{flow.folder}/logs/answer.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        "python -m sqrtdk.jobs.answer {input.config} {output} 2> {log}"
