# A CPU image of the commands `tianji`, `tianji-bench` and `tianji-report`, from this checkout at the versions of constraints.txt:
#
#   docker build --build-arg PIP_EXTRA_INDEX_URL=... -t tianji-bench .
#   docker run --rm --init -v "$PWD/runs:/work/runs" tianji-bench tianji train --env CartPole-v1 --out runs/first
#
# PIP_EXTRA_INDEX_URL is the index of CPU builds that PyTorch's install page names; without it torch brings CUDA, several GB.
# Give `docker run` --shm-size=2g for systems that use Ray: its object store lies in /dev/shm. TianJi's memory does not.
FROM python:3.11-slim-bookworm AS build
ARG PIP_EXTRA_INDEX_URL=""
ARG EXTRAS=bench,sb3,atari,box2d
WORKDIR /build
RUN python -m venv /opt/tianji
# Dependencies change less often than the code: they have a layer of their own.
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY tianji/__init__.py tianji/__init__.py
RUN /opt/tianji/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]"
COPY programs programs
COPY tianji tianji
COPY baselines baselines
COPY suites suites
COPY reports reports
COPY gate gate
RUN /opt/tianji/bin/pip install --no-cache-dir --no-deps --force-reinstall .

FROM python:3.11-slim-bookworm
RUN useradd --create-home --uid 1000 tianji && install --directory --owner=tianji --group=tianji /work /work/runs
COPY --from=build /opt/tianji /opt/tianji
ENV PATH=/opt/tianji/bin:$PATH PYTHONUNBUFFERED=1
USER 1000
WORKDIR /work
CMD ["tianji", "--help"]
