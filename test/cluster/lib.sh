# Shared by test/cluster/{build,up,down}. Sourced, not run.

# Where built binaries live. Outside the tree: they cost minutes of CPU and survive a clean build.
cluster_cache="${MUSTER_CACHE:-$HOME/.cache/muster}"
cluster_bin="$cluster_cache/bin"

fail() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}
