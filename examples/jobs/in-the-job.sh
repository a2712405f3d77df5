#!/usr/bin/env bash
# What the job runs: models.txt is read some models at a time, and pushed, so that little is lost if it ends early.
set -euo pipefail

command -v hf-lineage > /dev/null ||
  pip install --quiet 'hf-lineage[index] @ git+https://github.com/hf-lineage/hf-lineage'

hf download "$INDEX" models.txt --type dataset --local-dir .
split --lines "${AT_ONCE:-200}" models.txt part-
for part in part-*; do
  # Of what was pushed the keys alone are fetched, so the disk holds the signatures of one part.
  rm -rf index/keys index/signatures "${HF_HOME:-$HOME/.cache/huggingface}/lineage/signatures"
  hf-lineage index pull "$INDEX" --index index || echo 'There is no index yet.' >&2
  # 2: some models could not be read; each is named, with its reason, and the others are in the index.
  hf-lineage index build --from "$part" --index index --workers "$WORKERS" || [ $? = 2 ]
  hf-lineage index push "$INDEX" --index index
done
