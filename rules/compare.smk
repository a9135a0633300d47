"""Two runs side by side, or a run and the reference: `snakemake compare --config runs='[a,b]'`.

Needs the runs' folders in results/, which it leaves as they are.
"""


localrules:
    compare,


rule compare:
    "Compare two runs: what changed, both curves, every difference, and verdicts that flipped."
    input:
        request=flow.comparison.request,
        code=code("sqrtdk.jobs.compare"),
        pages=comparison.pages(),
    output:
        table=f"{flow.comparison.folder}/compare.csv",
        page=f"{flow.comparison.folder}/compare.html",
    log:
        f"{flow.comparison.folder}/logs/compare.log",
    benchmark:
        f"{flow.comparison.folder}/logs/compare.tsv"
    conda:
        "../envs/jobs.yml"
    params:
        runs=flow.comparison.runs,
    shell:
        "python -m sqrtdk.jobs.compare {params.runs:q} {output.table} {output.page} 2> {log}"
