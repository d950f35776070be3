#!/bin/bash
# TAGS:
# SPDX-License-Identifier: Apache-2.0
# What is on the wire must not change: proto/lock.txt against the .proto files.
set -u
cd "$(dirname "$0")/../.." || exit 1
now=$(mktemp) || exit 1
trap 'rm -f "$now"' EXIT
files=()
for f in proto/sluice/v1/*.proto; do
	[ "${f##*/}" = options.proto ] || files+=("$f")
done
awk -f tools/dev/proto_lock.awk "${files[@]}" >"$now"
gone=$(grep -vxFf "$now" proto/lock.txt)
if [ -z "$gone" ]; then
	echo "ok 1 - no number on the wire has changed"
else
	echo "# changed or removed (numbers are for ever):"
	printf '# %s\n' "$gone"
	echo "not ok 1 - no number on the wire has changed"
fi
if diff -u proto/lock.txt "$now" | sed 's/^/# /' && cmp -s proto/lock.txt "$now"
then
	echo "ok 2 - the lock file holds every number"
else
	echo "# run make proto-lock and look at what it changes"
	echo "not ok 2 - the lock file holds every number"
fi
# One number for one thing.
twice=$(sed 's/^enum .*//' "$now" | awk '/^method/ { print $NF; next }
    NF { sub(/\.[^.]* = /, " = "); print }' | sort | uniq -d)
if [ -z "$twice" ]; then
	echo "ok 3 - no number is used twice"
else
	echo "# $twice"
	echo "not ok 3 - no number is used twice"
fi
