# Sourced by tools/test and .ci/run: runs named parts, keeps their logs, counts what passed.
# A part is a command; what it prints decides its counts: GoogleTest's "[  PASSED  ] N tests", and lines "N passed, N failed".
# A part that prints neither counts as one test, passed if it exits with 0. A part whose exit code is not 0 has at least one failure.

results_dir=${MUSTER_RESULTS:-build/results}
mkdir -p "$results_dir"

# follow LOG: the last line of LOG on the terminal, behind the name of the part that runs. Cold builds take minutes.
follow() {
  local width line
  width=$(($(tput cols 2>/dev/null || echo 80) - 39))
  [ "$width" -ge 20 ] || return 0
  while sleep 2; do
    line=$(tail -n 1 "$1" | tr -cd '[:print:]')
    printf '\0337\033[K%s\0338' "${line:0:width}"
  done
}

# part NAME COMMAND...
part() {
  local name=$1
  shift
  local log="$results_dir/$name.log" started=$SECONDS code=0 follower=''
  printf '%s %-28s ' "$(date +%H:%M:%S)" "$name"
  : >"$log"
  if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ]; then
    follow "$log" &
    follower=$!
  fi
  "$@" >"$log" 2>&1 </dev/null || code=$?
  if [ -n "$follower" ]; then
    kill "$follower" 2>/dev/null
    wait "$follower" 2>/dev/null
    printf '\033[K'
  fi
  local passed failed
  passed=$(sed -nE -e 's/^([0-9]+: )?\[  PASSED  \] ([0-9]+) tests?\.$/\2/p' -e 's/^([0-9]+: )?([0-9]+) passed, [0-9]+ failed.*$/\2/p' "$log" |
    awk '{ n += $1 } END { print n + 0 }')
  failed=$(sed -nE -e 's/^([0-9]+: )?\[  FAILED  \] ([0-9]+) tests?, listed below:$/\2/p' -e 's/^([0-9]+: )?[0-9]+ passed, ([0-9]+) failed.*$/\2/p' "$log" |
    awk '{ n += $1 } END { print n + 0 }')
  if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
    if [ "$code" = 0 ]; then passed=1; else failed=1; fi
  elif [ "$code" != 0 ] && [ "$failed" = 0 ]; then
    failed=1
  fi
  echo "$name $passed $failed" >>"$results_dir/counts"
  if [ "$failed" = 0 ]; then
    printf 'ok      %5d passed  %4ds\n' "$passed" $((SECONDS - started))
  else
    printf 'FAILED  %5d passed, %d failed  %4ds  (%s)\n' "$passed" "$failed" $((SECONDS - started)) "$log"
    grep -nE '\[  FAILED  \]|Failure$|FAIL|rror:|runtime error|ERROR: AddressSanitizer|\*\*\*Failed|Timeout' "$log" | tail -n 25 || true
    echo "--- the last lines of $log:"
    tail -n 25 "$log"
    echo "---"
  fi
}

# Prints the closing line and returns 1 if anything failed.
total() {
  awk '{ p += $2; f += $3 } END { printf "%d passed, %d failed\n", p, f; exit f > 0 }' "$results_dir/counts"
}
