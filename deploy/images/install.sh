#!/bin/sh
# Build stage of every image: `install.sh FOLDER-OR-REQUIREMENT ...` installs our folders and these
# requirements into /opt/envfarm, at the versions of requirements/lock.txt.
set -eu
python3 -m venv /opt/envfarm
pip="/opt/envfarm/bin/python -m pip --disable-pip-version-check --quiet --no-cache-dir"
lock=/tmp/lock.txt
# The CPU build of torch has an index of its own; installed first, it satisfies the others.
grep -v '^torch==' requirements/lock.txt > "$lock"
$pip install -c "$lock" hatchling editables
for wanted in "$@"; do
  case $wanted in
    # Where PIP_FIND_LINKS has the wheel, no index is asked.
    torch==*) $pip install --no-deps "$wanted" 2> /dev/null \
      || $pip install --no-deps --index-url "$TORCH_INDEX" "$wanted" ;;
  esac
done
set -- dumb-init==1.2.5.post1 "$@"
$pip install --no-build-isolation -c "$lock" "$@"
find /opt/envfarm -name __pycache__ -prune -exec rm -rf {} +
