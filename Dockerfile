# The project and the packages of uv.lock. docs/scaling.md shows how to use it.
#     docker build -t sqrtdk .
#     docker run --rm -v "$PWD:/work" sqrtdk --cores 4 --config grid=smoke
FROM python:3.12-slim
RUN pip install --no-cache-dir uv
WORKDIR /opt/sqrtdk
COPY pyproject.toml uv.lock README.md LICENSE CITATION.cff Snakefile ./
COPY conf conf
COPY envs envs
COPY profiles profiles
COPY rules rules
COPY src src
RUN uv sync --frozen --no-dev --no-editable --extra slurm --python /usr/local/bin/python3
ENV PATH=/opt/sqrtdk/.venv/bin:$PATH
# Results go into the folder that is mounted here.
WORKDIR /work
ENTRYPOINT ["python", "-m", "sqrtdk.workflow"]
