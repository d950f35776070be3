#!/bin/bash
# TAGS: user timeout=180
# SPDX-License-Identifier: Apache-2.0
# Runs the tour of the README as it stands, in a home of its own.
set -u
D=$(mktemp -d /tmp/slt-tour.XXXXXX) || exit 1
chmod 755 "$D"
export HOME=$D XDG_RUNTIME_DIR=$D/run XDG_STATE_HOME=$D/state
mkdir -m 755 "$XDG_RUNTIME_DIR"
PATH=$SLUICE_BUILD/bin:$PATH
finish() {
	pkill -P $$ >/dev/null 2>&1
	wait
	rm -rf "$D"
}
trap finish EXIT
sed -n '/^```sh tour$/,/^```$/p' "$SLUICE_SRC/README.md" | sed '1d;$d' >"$D/tour"
[ -s "$D/tour" ] || { echo "not ok 1 - the README has a tour"; exit 1; }
# As a person types it: a line after the server answers, each must succeed.
{
	echo 'set -eum'
	sed -n 1p "$D/tour"
	echo 'for i in $(seq 100); do sluice stats >/dev/null 2>&1 && break; sleep 0.1; done'
	sed 1d "$D/tour"
	echo 'wait'
} >"$D/script"
if bash "$D/script" >"$D/out" 2>"$D/err" </dev/null; then
	echo "ok 1 - every command of the tour succeeds"
else
	echo "not ok 1 - the tour stopped (status $?)"
	tail -n 20 "$D/out" "$D/err" | sed 's/^/# /'
fi
if grep -q '5 /root/file' "$D/out" && [ "$(grep -cx '[123]' "$D/out")" = 3 ]; then
	echo "ok 2 - it prints what it says"
else
	echo "not ok 2 - the output is not as said"
	sed 's/^/# /' "$D/out"
fi
echo 1..2
