#!/bin/sh
# `take_part.sh PART FROM TO`: of each domain in FROM, or of those that DOMAINS names, its one part
# (world, user or private), and nothing else.
set -eu
for folder in "$2"/*/"$1"; do
  domain=$(basename "$(dirname "$folder")")
  case " ${DOMAINS:-$domain} " in *" $domain "*) ;; *) continue ;; esac
  mkdir -p "$3/$domain"
  cp -R "$folder" "$3/$domain/$1"
done
[ -d "$3" ] || { echo "DOMAINS names no domain of $2: ${DOMAINS:-}" >&2; exit 1; }
find "$3" -name __pycache__ -prune -exec rm -rf {} +
