# The learner: GRPO on DeepSpeed, for CPUs. On GPUs set TORCH to the CUDA build and BASE_IMAGE to an image
# with that CUDA and a Python of at least 3.11.
# Build it from the repository's root: docker build -f deploy/images/learner.Dockerfile .
ARG BASE_IMAGE=python:3.11.14-slim-bookworm

FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_TRUSTED_HOST
ARG TORCH=torch==2.13.0+cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG DS_ACCELERATOR=cpu
RUN command -v c++ > /dev/null \
 || { apt-get update && apt-get install -y --no-install-recommends g++ python3-dev; }
WORKDIR /src
COPY requirements requirements
COPY deploy/images deploy/images
COPY proto proto
COPY learner learner
RUN sh deploy/images/install.sh setuptools ninja ${TORCH} ./proto ./learner
# Here and not at the first update of a run.
RUN PATH=/opt/envfarm/bin:$PATH TORCH_EXTENSIONS_DIR=/opt/envfarm/torch_extensions \
    /opt/envfarm/bin/python requirements/build_ops.py

FROM ${BASE_IMAGE}
RUN groupadd --gid 10001 envfarm \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/envfarm --create-home --shell /usr/sbin/nologin envfarm \
 && mkdir -p /run/secrets /var/lib/envfarm/model /var/lib/envfarm/learner \
 && chown 10001:10001 /run/secrets /var/lib/envfarm/model /var/lib/envfarm/learner
COPY --from=build /opt/envfarm /opt/envfarm
COPY learner/configs /opt/configs
ARG DS_ACCELERATOR=cpu
ENV PATH=/opt/envfarm/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 \
    HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false DS_ACCELERATOR=${DS_ACCELERATOR} \
    LEARNER_REDIS_URL_FILE=/run/secrets/learner_redis_url
USER 10001:10001
WORKDIR /var/lib/envfarm
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=300s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/metrics', timeout=2)"]
ENTRYPOINT ["dumb-init", "--single-child", "--"]
CMD ["python", "-m", "learner", "train", "--config", "/opt/configs/tiny-cpu.toml"]
