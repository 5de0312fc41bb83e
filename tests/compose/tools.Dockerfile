# Stands for the images of Redis and Prometheus where no image registry can be reached: the same servers,
# taken from this machine.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY valkey-server prometheus /usr/local/bin/
RUN mkdir -p /data /prometheus && chown 999:999 /data && chown 65534:65534 /prometheus
