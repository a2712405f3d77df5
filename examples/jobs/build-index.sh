#!/usr/bin/env bash
# Builds an index of models on the machines of Hugging Face, and pushes it to a repository of data on the Hub:
#
#   hf repos create org/index --type dataset
#   hf upload org/index models.txt --type dataset      # one org/name a line
#   examples/jobs/build-index.sh org/index             # with --dry-run: only show the job
#
# A job that ends too early, or is started again, goes on where it was: what the repository holds is not read again.
# HF_TOKEN has to allow writing to the repository. Every week: put `hf jobs scheduled run @weekly` for `hf jobs run`.
set -euo pipefail

index=${1:?name a repository of data on the Hub, such as org/index}
here=$(dirname "${BASH_SOURCE[0]}")

hf jobs run --flavor cpu-upgrade --timeout 12h --detach --name hf-lineage-index \
  --secrets HF_TOKEN --env INDEX="$index" --env WORKERS=8 "${@:2}" \
  python:3.13 bash -c "$(cat "$here/in-the-job.sh")"
