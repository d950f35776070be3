#!/bin/bash
# TAGS: user
# SPDX-License-Identifier: Apache-2.0
# A server that may open few files: what it has no descriptor for is refused
# with what to raise; the rest goes on.
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice

# Make VMs until one is refused; 0 when the refusal names the remedy.
until_refused() {
	for _ in $(seq 60); do
		"$sluice" vm create >>"$D/vms" 2>"$D/err" && continue
		grep -q 'ulimit -Hn' "$D/err" && grep -q UNAVAILABLE "$D/err"
		return
	done
	echo "never refused" >"$D/err"
	return 1
}

ulimit -n 40
server_start
until_refused
check "a VM too many is refused with what to raise" $? "$D/err"
"$sluice" stats >"$D/out" 2>"$D/err"
check "the server goes on" $? "$D/err"
# shellcheck disable=SC2154 # of cli.sh
echo "1..$results"
