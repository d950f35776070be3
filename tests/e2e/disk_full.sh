#!/bin/bash
# TAGS: timeout=180
# SPDX-License-Identifier: Apache-2.0
# The disk of the state directory fills up under a running server (a small tmpfs,
# as root): prompts are refused by name, a turn that runs still ends, and when
# there is room again the same server goes on.
set -u
if [ -z "${DISK_FULL_NS:-}" ]; then
	if [ "$(id -u)" -ne 0 ] || ! unshare -m true 2>/dev/null; then
		echo 'ok 1 - a full disk # SKIP needs root and mounts'
		exit 0
	fi
	# In a mount namespace of its own nothing can stay mounted.
	DISK_FULL_NS=1 exec unshare -m "$0"
fi
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice
: "${server_pid:=}" # set by server_start
mkdir "$D/disk"
mount -t tmpfs -o size=24m,mode=755 none "$D/disk" || exit 1
echo 'store.ballast_bytes 1MiB' >"$D/conf"
server_start -c "$D/conf" --state "$D/disk/state"
pid=$server_pid
vm=$("$sluice" vm create) || exit 1
open() { "$sluice" session open "$vm" --agent shell --policy allow_all; }
is_full() { "$sluice" --json stats | grep -q "\"store.full\",\"scope\":\"server\",\"value\":$1"; }
runs=$(open)
big=$(open)
other=$(open)
fresh "$D/runs" "$D/big"
"$sluice" prompt "$runs" 'echo up; until [ -e /root/go ]; do sleep 0.05; done' \
    >"$D/runs" 2>"$D/runs.err" &
p1=$!
until_ok grep -q up "$D/runs"
"$sluice" history "$runs" >"$D/before"

head -c 30000000 /dev/zero >"$D/disk/filler" 2>/dev/null
"$sluice" prompt "$big" 'head -c 6000000 /dev/zero | tr "\0" x' >"$D/big" 2>"$D/big.err" &
p2=$!
until_ok is_full 1
check 'the server says that the disk is full' $? "$D/server.log"
"$sluice" prompt "$other" 'echo no' >"$D/out" 2>"$D/err"
[ $? -eq 4 ] && grep -q 'STORAGE_FULL' "$D/err" && grep -q 'make room' "$D/err" && [ ! -s "$D/out" ]
check 'a prompt is refused with STORAGE_FULL and what to do' $? "$D/err"
"$sluice" session open "$vm" --agent shell >"$D/out" 2>"$D/err"
[ $? -eq 4 ] && grep -q 'STORAGE_FULL' "$D/err" && [ ! -s "$D/out" ]
check 'so is a new session' $? "$D/err"
"$sluice" exec "$vm" -- touch /root/go
timeout 30 tail --pid=$p1 -f /dev/null
wait $p1
[ $? -eq 0 ] && is_full 1
check 'a turn that runs still ends, on the ballast' $? "$D/runs.err"
"$sluice" history "$runs" --limit "$(wc -l <"$D/before")" | cmp -s - "$D/before"
check 'what was there can be read' $?

rm "$D/disk/filler"
until_ok is_full 0
check 'with room again it is not full any more' $? "$D/server.log"
[ "$("$sluice" prompt "$other" 'echo yes' 2>"$D/err")" = yes ]
check 'and takes prompts' $? "$D/err"
wait $p2
[ $? -eq 0 ] && [ "$(tr -d '\n' <"$D/big" | wc -c)" -eq 6000000 ]
check 'the turn that was held up is whole' $? "$D/big.err"
[ "$server_pid" = "$pid" ] && kill -0 "$pid"
check 'all in one server' $?
"$sluice" history "$runs" >"$D/after"
server_kill TERM
server_start -c "$D/conf" --state "$D/disk/state"
"$sluice" history "$runs" --limit "$(wc -l <"$D/after")" | cmp -s - "$D/after"
check 'and the next one has the same history' $?
server_kill TERM
umount "$D/disk"
exit 0
