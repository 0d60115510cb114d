# The environment of `make lab` in an image: the same pins, no root, JupyterLab on 8888.
#   make docker
#   docker run --rm --init -p 127.0.0.1:8888:8888 -v sys602-work:/home/student/sys602/work sys602
# BASE can be any Debian or Ubuntu image that has python3 (3.11 or newer) with its venv module.
ARG BASE=python:3.11-slim-bookworm

# 1. The packages: they stay cached when only the course changes.
FROM ${BASE} AS packages
# An index of CPU builds of torch; without it the image holds several GB of GPU libraries. For an image that uses GPUs,
# pass an empty value.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY pyproject.toml constraints.txt requirements.lock /tmp/
WORKDIR /tmp
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --require-hashes -r requirements.lock \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt torch \
    ${TORCH_INDEX:+--extra-index-url $TORCH_INDEX} \
 && rm -rf /venv/lib/python3*/site-packages/torch/test

# 2. A class: JupyterHub, the instructor's desk and the grading cluster (compose.yaml). `make docker` skips it.
FROM packages AS packages-of-a-class
RUN python3 -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['classroom'], sep='\n')" \
    > requirements.txt \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -r requirements.txt

FROM ${BASE} AS classroom
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    bubblewrap fonts-wqy-microhei node-configurable-http-proxy openssl \
 && rm -rf /var/lib/apt/lists/*
COPY --from=packages-of-a-class /venv /venv
ENV PATH=/venv/bin:$PATH LANG=C.UTF-8
# The course folder, with the solutions, is the instructor's home; students get the package and their Jupyter settings.
RUN useradd --uid 1000 --home-dir /srv/course --shell /bin/bash instructor
COPY --chown=1000:1000 . /srv/course
WORKDIR /srv/course
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt --no-deps . \
 && rm -rf build \
 && install -D course/.jupyter/jupyter_server_config.d/student.json /etc/sys602/jupyter/jupyter_server_config.d/student.json \
 && install -D course/.jupyter/labconfig/page_config.json /etc/sys602/jupyter/labconfig/page_config.json \
 && install -D autograder/classroom/nbgrader_config.py /etc/jupyter/nbgrader_config.py \
 && chmod 700 . \
 && install -d -m 711 /srv/hub && install -d -o 1000 -g 1000 -m 700 /srv/keys && install -d -m 1777 /srv/exchange
EXPOSE 8000

# 3. The course.
FROM ${BASE}
# bubblewrap confines graded answers; the font draws the Chinese labels of the figures.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends bubblewrap fonts-wqy-microhei \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 --shell /bin/bash student
COPY --from=packages /venv /venv
WORKDIR /home/student/sys602
ENV PATH=/venv/bin:$PATH LANG=C.UTF-8
COPY --chown=1000:1000 . .
# work/ is the learner's folder, filled at the first start: a volume mounted there keeps the answers.
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt --no-deps -e . \
 && install -d -o 1000 -g 1000 work && chown 1000:1000 .

USER 1000
# Students have no formgrader; teachers start with -e JUPYTER_CONFIG_PATH= and the working folder above.
ENV JUPYTER_CONFIG_PATH=/home/student/sys602/course/.jupyter
WORKDIR /home/student/sys602/work
EXPOSE 8888
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8888/api', timeout=4)"]
CMD ["sh", "-c", "shardlab study --folder . begin && exec jupyter lab --LabApp.default_url=/lab/tree/start.ipynb --ip=0.0.0.0 --port=8888 --no-browser"]
