#!/bin/bash
# TAGS: user timeout=180
# SPDX-License-Identifier: Apache-2.0
# Where sluiced puts its socket and state, what it says when it cannot, how many
# descriptors it may have, and that its end is told as an end and not as a fault.
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice
sluiced=$SLUICE_BUILD/bin/sluiced
root=
[ "$(id -u)" -ne 0 ] || root=1

# Refused: status 1, one line, and these words in it.
refused() { # text words... -- argument...
	local text=$1 words=() rc w
	shift
	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	shift
	"$sluiced" "$@" >"$D/out" 2>"$D/err" </dev/null
	rc=$?
	[ $rc -eq 1 ] && [ "$(grep -c '^sluiced: ' "$D/err")" -eq 1 ]
	rc=$?
	for w in "${words[@]}"; do grep -qF -- "$w" "$D/err" || rc=1; done
	check "$text" $rc "$D/err"
}

mkdir -m 700 "$D/closed"
if [ -n "$root" ]; then
	refused 'state below a closed directory: named, with what to do' \
	    "$D/closed/state" "may not pass $D/closed" --state "chmod o+x $D/closed" \
	    -- --state "$D/closed/state"
	[ ! -e "$D/closed/state" ]
	check 'and nothing is left there' $?
	refused 'a socket below a closed directory: the same' \
	    "may not pass $D/closed" --listen "chmod o+x $D/closed" \
	    -- --listen "unix://$D/closed/s/x.sock"
	[ ! -e "$D/closed/s" ]
	check 'and nothing is left there either' $?
fi
refused 'a socket in a directory that is not there' "$D/none/s" --listen \
    -- --listen "unix://$D/none/s/x.sock"

# The runtime directory of a root login is closed to the server.
if [ -n "$root" ]; then
	cat >"$D/closed_run" <<-'EOF'
	mount -t tmpfs -o mode=755 none /run || exit 77
	export XDG_RUNTIME_DIR=$D/closed
	"$sluiced" >"$D/log" 2>&1 &
	pid=$!
	for _ in $(seq 200); do "$sluice" stats >/dev/null 2>&1 && break; sleep 0.05; done
	"$sluice" vm create >/dev/null && [ -S /run/sluice/sluiced.sock ]
	rc=$?
	kill $pid
	wait $pid
	exit $rc
	EOF
	export D sluice sluiced
	unshare -m bash "$D/closed_run" >"$D/out" 2>&1
	rc=$?
	if [ $rc -eq 77 ]; then
		echo "ok $((results += 1)) - a closed XDG_RUNTIME_DIR # SKIP no mount"
	else
		check 'root with a closed XDG_RUNTIME_DIR: /run/sluice, for both' $rc "$D/log"
	fi
	# Another state directory is another uid; the socket directory goes over.
	for i in a b; do
		server_start --state "$D/state-$i"
		stat -c %u "$XDG_RUNTIME_DIR/sluice" >"$D/owner-$i"
		server_kill TERM
	done
	! cmp -s "$D/owner-a" "$D/owner-b"
	check 'a server with other state takes the socket directory over' $?
	server_start --state "$D/state-a"
	refused 'but not from a living one' 'a server is running at' -- --state "$D/state-b"
	server_kill TERM
fi

# Somebody whom the configuration does not name is told what would let him in.
if [ -n "$root" ]; then
	echo 'uid 61999 2 user' >"$D/conf"
	server_start -c "$D/conf"
	url=unix://$XDG_RUNTIME_DIR/sluice/sluiced.sock
	setpriv --reuid=61999 --regid=61999 --clear-groups "$sluice" --server "$url" vm list \
	    >"$D/out" 2>"$D/err"
	check 'a uid that the configuration names is let in' $? "$D/err"
	setpriv --reuid=61998 --regid=61998 --clear-groups "$sluice" --server "$url" vm list \
	    >"$D/out" 2>"$D/err"
	[ $? -eq 4 ] && grep -q 'does not let you in.*uid UID TENANT ROLE' "$D/err"
	check 'another is refused, with what would let him in' $? "$D/err"
	server_kill TERM
fi

# Descriptors: all the server may have, but not for the VM.
hard=$(ulimit -Hn)
ulimit -Sn 256
server_start
ulimit -Sn "$hard"
awk -v h="$hard" '/^Max open files/ { exit !($4 == $5 && $4 == h) }' "/proc/$server_pid/limits"
check 'the soft limit of descriptors is raised to the hard one' $?
vm=$("$sluice" vm create --limit vm.nofile=300)
[ "$("$sluice" exec "$vm" -- sh -c 'ulimit -Sn; ulimit -Hn')" = $'300\n300' ]
check 'what runs in a VM has vm.nofile' $?
server_kill TERM

# The server's end, in whatever way, is not the opener's.
for _ in 1 2 3 4 5 6 7 8; do
	server_start
	"$sluice" vm create >/dev/null
	server_kill KILL
	server_start
	"$sluice" vm create >/dev/null
	server_kill TERM
done
! grep -q '^err' "$D/server.log"
check 'no error is logged when the server stops or is killed' $? "$D/server.log"
# ...and the opener's end is.
server_start
for p in $(pgrep -P "$server_pid"); do
	[ "$(cat "/proc/$p/comm")" != sluice-opener ] || kill -KILL "$p"
done
wait "$server_pid"
rc=$?
server_pid=
[ $rc -eq 1 ] && grep -q '^err .*opener' "$D/server.log"
check 'the end of the opener stops the server with an error' $? "$D/server.log"
exit 0
