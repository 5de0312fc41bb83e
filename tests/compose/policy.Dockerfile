# The scripted policy: the gateway's image with what the command's package needs beside it.
FROM envfarm/rollout-gateway:local
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_TRUSTED_HOST
USER 0:0
RUN python -m pip install --quiet --no-cache-dir rich typer
USER 10001:10001
HEALTHCHECK NONE
