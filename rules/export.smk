"""The run for other places: the page of a repository, an archive, a software catalogue.

Needs the tables, the figures and the provenance; makes files beside the report.
"""


localrules:
    export,
    figures_paper,
    showcase,


rule export:
    "Write report.md, the run as a Workflow Run RO-Crate, and codemeta.json."
    input:
        claims=rules.claims.output,
        questions=rules.questions.output,
        provenance=rules.provenance.output,
        tables=[flow.tables(name) for name in flow.experiments],
        figures=[flow.figures(name) for name in flow.experiments],
        code=flow.common_code("export", "claims", "story"),
        captions=pages(),
        citation=citation(),
        rules=workflow_files(),
    output:
        page=f"{flow.folder}/report.md",
        crate=f"{flow.folder}/ro-crate-metadata.json",
        codemeta=f"{flow.folder}/codemeta.json",
    log:
        f"{flow.folder}/logs/export.log",
    benchmark:
        f"{flow.folder}/logs/export.tsv"
    conda:
        "../envs/jobs.yml"
    params:
        folder=flow.folder,
    shell:
        "python -m sqrtdk.jobs.export {params.folder} 2> {log}"


rule showcase:
    "Write docs/report/, the run that the repository shows."
    input:
        rules.export.output,
        code=code("sqrtdk.jobs.showcase"),
    log:
        f"{flow.folder}/logs/showcase.log",
    conda:
        "../envs/jobs.yml"
    params:
        folder=flow.folder,
    shell:
        # Not as outputs, which Snakemake deletes before it makes them: they are in the repository.
        "python -m sqrtdk.jobs.showcase {params.folder} docs/report 2> {log}"


for experiment in flow.drawn:

    rule:
        name:
            f"paper_{experiment}"
        input:
            tables=flow.tables(experiment),
            code=flow.drawing_code(experiment, "paper"),
        output:
            flow.paper(experiment),
        log:
            f"{flow.folder}/logs/{experiment}-paper.log",
        benchmark:
            f"{flow.folder}/logs/{experiment}-paper.tsv"
        localrule: True
        conda:
            "../envs/jobs.yml"
        params:
            experiment=experiment,
            tables=subpath(input[0], parent=True),
            figures=subpath(output[0], parent=True),
        shell:
            "python -m sqrtdk.jobs.paper {params.experiment} {params.tables} {params.figures} 2> {log}"


rule figures_paper:
    "Draw every figure for a paper's column (PDF) and for a slide (PNG)."
    input:
        [flow.paper(experiment) for experiment in flow.drawn],
