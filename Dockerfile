# The environment of `make lab` in an image: the same pins, no root, JupyterLab on 8888.
#   docker build -t sys602 .
#   docker run --rm --init -p 127.0.0.1:8888:8888 sys602
# BASE may be any Debian or Ubuntu image that has python3 (3.11 or newer) with its venv module.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

# bubblewrap confines the answers that are graded; the font writes the Chinese labels of the figures.
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends bubblewrap fonts-wqy-microhei \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 --shell /bin/bash student \
 && install -d -o student -g student /venv /home/student/sys602

USER 1000
WORKDIR /home/student/sys602
ENV PATH=/venv/bin:$PATH LANG=C.UTF-8

# An index of CPU builds of torch, if you have one, makes the image several GB smaller.
ARG PIP_EXTRA_INDEX_URL=

# The packages first: they stay in the build's cache while the course changes.
COPY --chown=student:student pyproject.toml constraints.txt ./
RUN python3 -m venv /venv \
 && python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
    > /tmp/requirements.txt \
 && pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -r /tmp/requirements.txt \
 && rm /tmp/requirements.txt

COPY --chown=student:student . .
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt -e .

# Students have no formgrader; a teacher starts with -e JUPYTER_CONFIG_PATH= and the working folder above.
ENV JUPYTER_CONFIG_PATH=/home/student/sys602/course/.jupyter
# The learner's folder, laid out at the first start: a volume mounted here keeps the answers.
RUN mkdir work
WORKDIR /home/student/sys602/work
EXPOSE 8888
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8888/api', timeout=4)"]
CMD ["sh", "-c", "shardlab study --folder . begin && exec jupyter lab start.ipynb --ip=0.0.0.0 --port=8888 --no-browser"]
