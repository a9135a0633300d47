"""From the tables to the report: figures, provenance, the page, and the check of the numbers."""


localrules:
    provenance,
    report,
    verify,


for experiment in flow.drawn:

    rule:
        name:
            f"draw_{experiment}"
        input:
            tables=flow.tables(experiment),
            code=flow.drawing_code(experiment),
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
        priority: order.TABLES
        localrule: True
        conda:
            "../envs/jobs.yml"
        params:
            experiment=experiment,
            tables=subpath(input[0], parent=True),
            figures=subpath(output[0], parent=True),
        shell:
            "python -m sqrtdk.jobs.draw {params.experiment} {params.tables} {params.figures} 2> {log}"


rule provenance:
    "Where the tables come from: code, versions, machine, command and digests."
    input:
        tables=[
            *[f"{flow.folder}/{name}/runs.csv" for name in flow.experiments],
            *flow.summaries(),
        ],
        claims=rules.claims.output,
        config=rules.write_config.output,
        code=code("sqrtdk.jobs.trace"),
    output:
        f"{flow.folder}/provenance.json",
    log:
        f"{flow.folder}/logs/trace.log",
    benchmark:
        f"{flow.folder}/logs/trace.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    shell:
        'python -m sqrtdk.jobs.trace {output} "$SQRTDK_COMMAND" {input.tables} {input.claims}'
        " 2> {log}"


rule report:
    "The report: one page that works offline."
    input:
        claims=rules.claims.output,
        questions=rules.questions.output,
        provenance=rules.provenance.output,
        tables=[flow.tables(name) for name in flow.experiments],
        figures=[flow.figures(name) for name in flow.experiments],
        # The page lists them with their sizes.
        exports=flow.exports,
        code=flow.prose(),
        pages=pages(),
    output:
        f"{flow.folder}/report.html",
    log:
        f"{flow.folder}/logs/publish.log",
    benchmark:
        f"{flow.folder}/logs/publish.tsv"
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "python -m sqrtdk.report {params.folder} 2> {log}"


rule verify:
    "Compare the run's numbers with those that the project's own machine had."
    input:
        config=rules.write_config.output,
        compared=flow.verified(),
        code=code("sqrtdk.jobs.verify"),
    log:
        f"{flow.folder}/logs/verify.log",
    priority: order.TABLES
    conda:
        "../envs/jobs.yml"
    params:
        folder=flow.folder,
    shell:
        "python -m sqrtdk.jobs.verify {params.folder} 2>&1 | tee {log}"
