#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job of Sluice, end to end, narrated: a server, a VM, a command, an
# agent that asks permission, a SIGKILL in the middle of a turn, and the
# history as it was acknowledged. Uses the built programs; leaves nothing.
#   tests/demo.sh [BUILD]      BUILD: debug (default), rel, ...
set -u
cd "$(dirname "$0")/.." || exit 1
B=$PWD/build/${1:-debug}
PATH=$B/bin:$PATH
D=$(mktemp -d "${TMPDIR:-/tmp}/sluice-demo.XXXXXX") || exit 1
chmod 755 "$D"
export SLUICE_URL=unix://$D/run/sluiced.sock
server=

say() { printf '%s\n' "$*"; }
die() {
	say "demo: FAILED: $*" >&2
	[ -s "$D/log" ] && tail -n 15 "$D/log" >&2
	exit 1
}
start() {
	sluiced --state "$D/state" --listen "$SLUICE_URL" 2>>"$D/log" &
	server=$!
	for _ in $(seq 200); do
		sluice stats >/dev/null 2>&1 && return
		kill -0 "$server" 2>/dev/null || die "the server did not start"
		read -rt 0.05 <> <(:)
	done
	die "the server does not answer"
}
# Is anything of ours left? The server and its helpers name the temp dir in
# their arguments; a VM is known by its pid 1; mounts are counted.
vmpid=
cgroups=
leftovers() {
	local n=0 p
	for p in $cgroups; do
		[ -d "$p" ] && n=$((n + 1))
	done
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = $$ ] && continue
		tr '\0' '\n' 2>/dev/null <"$p/cmdline" | grep -qF "$D" &&
			n=$((n + 1))
	done
	# A dead one that nobody has waited for is not ours any more.
	[ -n "$vmpid" ] && grep -q '^State:.[^ZX]' "/proc/$vmpid/status" \
		2>/dev/null && n=$((n + 1))
	grep -qF "$D" /proc/self/mountinfo && n=$((n + 1))
	echo "$n"
}
finish() {
	local rc=$?
	trap - EXIT
	[ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server"
	rm -rf "$D"
	exit $rc
}
trap finish EXIT
waitfor() { # waitfor SECONDS COMMAND...: until it succeeds
	local t=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $t ] || return 1
		read -rt 0.05 <> <(:)
	done
	return 0 # not the status of read
}
pending() { [ -n "$(sluice permissions "$S")" ]; }
request() { sluice --json permissions "$S" | sed -n 's/.*"request": *\([0-9]*\).*/\1/p' | head -1; }
hash() { sha256sum | cut -c1-16; }

say "1. A server starts (as $(id -un 2>/dev/null)); nothing was set up before."
start
say "2. A VM: own root, processes, users, network. No image needed."
V=$(sluice vm create --name demo) || die "vm create"
say "   $V"
vmpid=$(sluice --json vm get "$V" | sed -n 's/.*"init_pid": *\([0-9]*\).*/\1/p')
[ -d "/proc/${vmpid:-none}" ] || die "the VM has no pid 1"
# Where this server keeps its cgroups, if it may have any.
cgroups=$(sluice doctor | sed -n 's|^cgroup.*, \(/sys/fs/cgroup/[^ ]*/sluice/[^ ]*\)$|\1|p')
say "3. A command in it:"
sluice exec "$V" -- sh -c 'echo "   uid $(id -u), host $(hostname), $(ls /proc | grep -c "^[0-9]") processes, $(ls /sys/class/net 2>/dev/null | wc -l) network cards"' ||
	die "exec"
sluice exec "$V" -- sh -c 'exit 7'
[ $? = 7 ] || die "the exit status was not passed on"
say "4. An agent in the VM (sluice-agent-shell, over ACP):"
S=$(sluice session open "$V" --agent shell) || die "session open"
say "   $S"
say "5. A prompt. The agent asks permission; until somebody answers, it waits."
sluice prompt "$S" 'echo hello from the agent; uname -s' >"$D/text" 2>"$D/notes" &
prompt=$!
waitfor 20 pending || die "no permission request"
say "   $(sluice permissions "$S" | head -1)"
sluice permit "$S" "$(request)" allow >/dev/null || die "permit"
wait $prompt || die "the turn did not end with end_turn: $(cat "$D/notes")"
sed 's/^/   agent> /' "$D/text"
say "6. A long turn streams to a client under credit..."
sluice attach "$S" >"$D/seen" 2>/dev/null &
viewer=$!
sluice prompt "$S" 'for i in $(seq 1 500); do echo tick $i; sleep 0.02; done' \
	>/dev/null 2>&1 &
prompt=$!
waitfor 20 pending || die "no permission request"
sluice permit "$S" "$(request)" allow >/dev/null || die "permit"
ticks() { [ "$(grep -c tick "$D/seen")" -ge 40 ]; }
waitfor 30 ticks || die "nothing streamed"
say "7. ...and the server is killed with SIGKILL in the middle of it."
kill -9 "$server"
wait "$server" 2>/dev/null
kill $viewer $prompt # they would wait for it to come back
wait $viewer $prompt 2>/dev/null
server=
gone() { [ "$(leftovers)" = 0 ]; }
waitfor 5 gone || die "something outlived the server"
say "   Nothing survived it: no process, no mount, no cgroup."
say "8. It starts again. What was acknowledged is there, to the byte:"
start
last=$(sed -n 's/^{"seq": *\([0-9]*\).*/\1/p' "$D/seen" | tail -1)
# The last line may have been cut by the kill; what came whole must be there.
head -n "$(sed -n '/}$/=' "$D/seen" | tail -1)" "$D/seen" >"$D/acked"
n=$(wc -l <"$D/acked")
sluice history "$S" --limit "$n" >"$D/after" || die "history"
a=$(hash <"$D/acked") b=$(hash <"$D/after")
say "   events 1-$last before: $a   after: $b"
[ "$a" = "$b" ] || die "the history changed"
sluice history "$S" | grep -q '"outcome":"lost"' || die "the turn is not lost"
say "   The interrupted turn is called lost, not done."
say "9. The next prompt works; the agent is started again in a new VM disk:"
sluice prompt "$S" 'echo back again' >"$D/text" 2>"$D/notes" &
prompt=$!
waitfor 20 pending || die "no permission request: $(cat "$D/notes")"
sluice permit "$S" "$(request)" allow >/dev/null || die "permit"
wait $prompt || die "the turn did not end with end_turn: $(cat "$D/notes")"
sed 's/^/   agent> /' "$D/text"
say "10. Delete the VM, stop the server; is anything left?"
sluice session delete "$S" >/dev/null || die "session delete"
sluice vm delete "$V" >/dev/null || die "vm delete"
kill "$server"
wait "$server" || die "the server did not stop cleanly"
server=
[ "$(leftovers)" = 0 ] || die "leftovers: $(leftovers)"
say "    No process, no mount, no cgroup. Done in $SECONDS s."
