#!/bin/bash
# TAGS: user timeout=120
# SPDX-License-Identifier: Apache-2.0
# The demo runs to its end, briefly told, in under a minute.
set -u
t0=$SECONDS
out=$(bash "$SLUICE_SRC/tests/demo.sh" "$V" 2>&1)
rc=$?
if [ $rc = 0 ]; then
	echo "ok 1 - the demo ends with status 0"
else
	echo "not ok 1 - the demo ended with status $rc"
	sed 's/^/# /' <<<"$out"
fi
n=$(wc -l <<<"$out")
if [ "$n" -lt 40 ] && [ $((SECONDS - t0)) -lt 60 ]; then
	echo "ok 2 - it takes $n lines and $((SECONDS - t0)) s"
else
	echo "not ok 2 - it takes $n lines and $((SECONDS - t0)) s"
fi
echo 1..2
