# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For shell tests of the sluice command: a server of their own in a temporary
# home, numbered results, and an end that leaves nothing. Sourced.
#   $D   temporary directory, gone at the end
set -u
D=$(mktemp -d "${TMPDIR:-/tmp}/slt-cli.XXXXXX") || exit 1
chmod 755 "$D"
export HOME=$D XDG_RUNTIME_DIR=$D/run XDG_STATE_HOME=$D/state
mkdir -m 755 "$XDG_RUNTIME_DIR"
unset SLUICE_URL
server_pid=
results=0

check() { # text status [file to show on failure]
	results=$((results + 1))
	if [ "$2" -eq 0 ]; then
		echo "ok $results - $1"
	else
		echo "not ok $results - $1"
		[ -z "${3:-}" ] || tail -n 20 "$3" | sed 's/^/# /'
	fi
}

# Run until it succeeds, at most 20 s.
until_ok() {
	local end=$((SECONDS + 20))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

server_start() { # argument...
	"$SLUICE_BUILD/bin/sluiced" "$@" >>"$D/server.log" 2>&1 &
	server_pid=$!
	until_ok "$SLUICE_BUILD/bin/sluice" stats || {
		echo "Bail out! the server does not start"
		sed 's/^/# /' "$D/server.log"
		exit 1
	}
}

server_kill() { # signal
	kill "-$1" "$server_pid" 2>/dev/null
	wait "$server_pid" 2>/dev/null
	server_pid=
}

# Empty the files that a command in the background is about to write, so that
# nobody takes what an earlier one left for its output.
fresh() {
	local f
	for f in "$@"; do : >"$f"; done
}

cli_end() {
	[ "$BASHPID" = $$ ] || return 0
	[ -z "$server_pid" ] || server_kill TERM
	rm -rf "$D"
}
trap cli_end EXIT
