#!/usr/bin/env bash
# Builds the Go example: bindings of the contract, a core module, a component.
#
# Usage: build.sh OUTPUT.wasm WORK-DIRECTORY, with wit-bindgen and wasm-tools in $TOOLS.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
wit=$(cd "$here/../../../wit" && pwd)
output=$(realpath "$1")
work=$2

mkdir -p "$work"
"$TOOLS/wit-bindgen" go -w controller "$wit" --out-dir "$work" > /dev/null 2> "$work/bindings.log" || { cat "$work/bindings.log" >&2; exit 1; }
# The bindings call the functions of this package.
mkdir -p "$work/export_wit_world"
cp "$here"/*.go "$work/export_wit_world"
cp "$here/go.mod" "$here/go.sum" "$work"
cd "$work"
GOOS=wasip1 GOARCH=wasm go build -o core.wasm -trimpath -buildmode=c-shared -ldflags="-s -w -checklinkname=0" .
"$TOOLS/wasm-tools" component embed -w controller "$wit" core.wasm -o embedded.wasm
"$TOOLS/wasm-tools" component new --adapt "wasi_snapshot_preview1=$here/adapter.wat" embedded.wasm -o component.wasm
# By rename, so that a manager that follows the directory never sees a part of it.
mv component.wasm "$output"
