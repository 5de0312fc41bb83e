# The grader: verdicts, and the proofs of tasks (python -m grader.ingest); the private part of each domain.
# Build it from the repository's root: docker build -f deploy/images/grader.Dockerfile .
# Plain instructions only, so that BuildKit and the classic builder both take it.
ARG BASE_IMAGE=python:3.11.14-slim-bookworm

FROM ${BASE_IMAGE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_TRUSTED_HOST
WORKDIR /src
COPY requirements requirements
COPY deploy/images deploy/images
COPY proto proto
COPY services/common services/common
COPY services/grader services/grader
RUN sh deploy/images/install.sh ./proto ./services/common ./services/grader
# Names with spaces between them; empty takes all.
ARG DOMAINS
COPY domains domains
RUN sh deploy/images/take_part.sh private domains /opt/domains

FROM ${BASE_IMAGE}
# initdb and getpass want an account with a name.
RUN groupadd --gid 10001 envfarm \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/envfarm --create-home --shell /usr/sbin/nologin envfarm \
 && mkdir -p /run/secrets /var/lib/envfarm/golden /var/lib/envfarm/grader && chown 10001:10001 /run/secrets /var/lib/envfarm/golden /var/lib/envfarm/grader
COPY --from=build /opt/envfarm /opt/envfarm
COPY --from=build /opt/domains /opt/domains
ENV PATH=/opt/envfarm/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 \
    GRADER_HOST=0.0.0.0 GRADER_HTTP_PORT=8080 GRADER_GRPC_PORT=9090 \
    GRADER_DOMAINS_DIR=/opt/domains GRADER_GOLDEN_DIR=/var/lib/envfarm/golden \
    GRADER_STATE_DIR=/var/lib/envfarm/grader
USER 10001:10001
WORKDIR /var/lib/envfarm
EXPOSE 8080 9090
HEALTHCHECK --interval=5s --timeout=10s --start-period=60s --retries=6 \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
# One child, not its group: what the service started, it stops itself.
ENTRYPOINT ["dumb-init", "--single-child", "--"]
CMD ["python", "-m", "grader"]
