#!/usr/bin/env bash
# Runs the test suites of nats.go (the public Go client) against an external server binary and prints
# "N of M tests passed".
#
#   NATS_SERVER_BIN    the server under test (default: Sluice, built from this checkout;
#                      "reference" is nats-server, i.e. a baseline run)
#   CHECK=1            run only the tests in expected.tsv, and fail if one of them does not pass
#   UPDATE=1           write the tests that passed into expected.tsv: all of a whole run, or those of RUN added.
#                      Tests that start no server, which say nothing about it, are left out
#   QUICK=1            leave out tests that take nats-server more than 3 s
#   RUN                only tests that match this regexp
#   WORKERS            tests at the same time (default 2); TIMEOUT for one (default 60s); RETRIES (default 1)
#   OUT                results directory (default: ./results/<time>)
#   STORE_ARGS         arguments for Sluice that say where it stores, e.g. "--store mem://"
#   STYLE              conf (default) | flat | flags: how the servers are configured
#   EXTRA_ARGS         more arguments for the server under test
#   SERVER_LOGS=1      keep the logs of every server process
#   REF_NATS_SERVER    a real nats-server for the control plane (default: installed into the cache)
#   NATSGO_DIR         checked-out nats.go (default: v1.55.0 from the Go module proxy)
#   SAVE_BASELINE=1    store the results as the new baseline (only with the real server)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=$root/.cache/conformance
ref_version=v2.15.3
natsgo_version=v1.55.0
out=${OUT:-$here/results/$(date +%Y%m%d-%H%M%S)}
mkdir -p "$cache" "$out"
out=$(realpath "$out")
log() { echo "conformance: $*" >&2; }
die() { log "$*"; exit 2; }

reference() {
  export REF_NATS_SERVER=${REF_NATS_SERVER:-$("$root/.ci/tool" nats-server)}
  [ -x "$REF_NATS_SERVER" ] || die "no nats-server"
}

under_test() {
  case "${NATS_SERVER_BIN:-}" in
  reference) NATS_SERVER_BIN=$REF_NATS_SERVER ;;
  "")
    (cd "$root" && go build -o "$cache/sluice" ./cmd/sluice) || die "cannot build sluice"
    NATS_SERVER_BIN=$cache/sluice
    ;;
  esac
  NATS_SERVER_BIN=$(realpath "$(command -v "$NATS_SERVER_BIN")") || die "no NATS_SERVER_BIN"
  export NATS_SERVER_BIN
}

# gomod MODULE VERSION DIR: a writable copy of a module's source.
gomod() {
  [ -d "$3" ] && return
  local d
  d=$(cd "$here/runner" && GOFLAGS=-mod=mod go mod download -json "$1@$2" | sed -n 's/.*"Dir": "\(.*\)",\{0,1\}$/\1/p')
  [ -d "$d" ] || die "cannot get $1@$2"
  cp -r "$d" "$3" && chmod -R u+w "$3"
}

# The configuration parser that the tester needs is taken from the module cache, unchanged.
build() {
  if ! ls "$here"/shim/conf/*.go >/dev/null 2>&1; then
    gomod github.com/nats-io/nats-server/v2 "$ref_version" "$cache/nats-server"
    mkdir -p "$here/shim/conf" && cp "$cache"/nats-server/conf/lex.go "$cache"/nats-server/conf/parse.go "$here/shim/conf/"
  fi
  (cd "$here/runner" && go build -o "$cache/runner" .) || die "cannot build the runner"
  natsgo=${NATSGO_DIR:-$cache/nats.go}
  gomod github.com/nats-io/nats.go "$natsgo_version" "$natsgo"
}

# selection: the flags that choose tests, for the run and for its summary.
selection() {
  choose=(-run "${RUN:-}")
  local list=$out/chosen.tsv baseline=$here/baseline/natsgo.tsv
  if [ -n "${CHECK:-}" ]; then
    grep -v '^#' "$here/expected.tsv" >"$list"
  elif [ -n "${QUICK:-}" ]; then
    grep -v '^#' "$baseline" | cut -f1,2 >"$list"
  else
    return
  fi
  if [ -n "${QUICK:-}" ]; then
    awk -F'\t' 'NR==FNR { if ($4 > 3) slow[$1 "\t" $2] = 1; next } !($1 "\t" $2 in slow)' "$baseline" "$list" >"$list.quick"
    mv "$list.quick" "$list"
  fi
  choose+=(-list "$list")
}

run() {
  "$cache/runner" -bin "$NATS_SERVER_BIN" -ref "$REF_NATS_SERVER" -style "${STYLE:-conf}" \
    -extra-args "${STORE_ARGS:-} ${EXTRA_ARGS:-}" -repo "$(realpath "$natsgo")" -pkgs test,jetstream/test,micro/test \
    -modfile go_test.mod -tags internal_testing "${choose[@]}" -timeout "${TIMEOUT:-60s}" -retries "${RETRIES:-1}" \
    -workers "${WORKERS:-2}" -out "$out" ${SERVER_LOGS:+-server-logs} >"$out/run.log" 2>&1
  local status=$?
  [ $status -eq 0 ] || { tail -n 20 "$out/run.log" >&2; die "the runner failed, see $out/run.log"; }
}

finish() {
  [ -z "${SAVE_BASELINE:-}" ] || cp "$out/results.tsv" "$here/baseline/natsgo.tsv"
  if [ -n "${UPDATE:-}" ]; then
    local old=/dev/null
    [ -z "${RUN:-}${QUICK:-}" ] || old=$here/expected.tsv
    {
      echo "# The tests of nats.go that pass with Sluice: package, test. CHECK=1 ./run.sh fails when one of them does not."
      { grep -v '^#' "$old"; awk -F'\t' '$3 == "PASS" && $7 > 0 { print $1 "\t" $2 }' "$out/results.tsv"; } | sort -u
    } >"$out/expected.tsv"
    cp "$out/expected.tsv" "$here/expected.tsv"
  fi
  "$cache/runner" -summarize "$out/results.tsv" -baseline "$here/baseline/natsgo.tsv" -suite nats.go "${choose[@]}" \
    ${CHECK:+-check "$here/expected.tsv"} | tee "$out/summary.txt"
}

reference
under_test
build
selection
log "server under test: $NATS_SERVER_BIN; results in $out"
run
finish
