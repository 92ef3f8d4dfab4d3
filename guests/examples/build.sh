#!/usr/bin/env bash
# Builds the example controllers of the languages whose tools are there, and plays
# the scenarios with each. What is skipped is said, with the reason.
# The first run installs tools for Python, which takes a minute.
#
# Usage: build.sh TARGET-DIRECTORY [rust] [python] [go]
set -euo pipefail

cd "$(dirname "$0")/../.."
target=$1
shift
languages=${*:-rust python go}

out=$target/examples
tools=$target/tools
mkdir -p "$out" "$tools"

componentize_py=0.25.1

skip() {
  echo "skipped $1: $2"
}

# What a language needs besides its own toolchain.
tools_rust() {
  true
}

build_rust() {
  "$target/release/xtask" guests website-controller-rust
}

tools_python() {
  local venv=$tools/python
  if [[ ! -x $venv/bin/componentize-py ]] || ! "$venv/bin/componentize-py" --version | grep -qF " $componentize_py"; then
    echo "installing componentize-py $componentize_py in $venv, which may take a minute"
    python3 -m venv "$venv" || return
    "$venv/bin/pip" install --quiet --disable-pip-version-check "componentize-py==$componentize_py" || return
  fi
}

build_python() {
  local venv=$tools/python
  # From a copy, since Python leaves its byte code beside what it reads.
  mkdir -p "$out/python" && cp guests/examples/python/*.py "$out/python" || return
  # Without WASI (-s): the contract is all that the module imports.
  "$venv/bin/componentize-py" -d wit -w controller componentize -p "$out/python" -s app \
    -o "$out/website-controller-python.wasm"
}

tools_go() {
  # The one module that the bindings need.
  (cd guests/examples/go && go mod download)
}

build_go() {
  "$target/release/xtask" go "$out/website-controller-go.wasm" "$out/go"
}

failed=0
built=()
for language in $languages; do
  case $language in
    rust) needs=cargo ;;
    python) needs=python3 ;;
    go) needs=go ;;
    *) echo "no example is written in $language; there are rust, python and go" >&2; exit 2 ;;
  esac
  if ! command -v "$needs" > /dev/null; then
    skip "$language" "there is no $needs on the path"
  elif [[ ! -d guests/examples/$language ]]; then
    skip "$language" "there is no example in it"
  elif ! "tools_$language"; then
    skip "$language" "its tools cannot be installed; why is above"
  elif "build_$language"; then
    built+=("$language")
  else
    echo "$language: not built; its tools say why above" >&2
    failed=1
  fi
done

for language in ${built[@]+"${built[@]}"}; do
  module=$out/website-controller-$language.wasm
  echo "$module: $(($(stat -c %s "$module") / 1024)) KiB"
  "$target/release/coxswain" test "$module" guests/examples/scenarios || failed=1
done
exit $failed
