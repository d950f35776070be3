#!/bin/bash
# TAGS: asan user
# SPDX-License-Identifier: Apache-2.0
# The sluice command without a server: exit codes, one line on stderr that says
# what to do, nothing on stdout, help for every command.
set -u
sluice=$SLUICE_BUILD/bin/sluice
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
unset SLUICE_URL
n=0

check() { # text status-of-condition
	n=$((n + 1))
	if [ "$2" -eq 0 ]; then echo "ok $n - $1"; else
		echo "not ok $n - $1"
		sed 's/^/# /' "$tmp/err"
	fi
}

# Exit code, and a piece that the one line on stderr must have.
refuses() { # code piece argument...
	local code=$1 piece=$2 rc
	shift 2
	"$sluice" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	rc=$?
	[ $rc -eq "$code" ] && [ ! -s "$tmp/out" ] &&
	    [ "$(wc -l <"$tmp/err")" -eq 1 ] &&
	    grep -q '^sluice: ' "$tmp/err" && grep -qF -- "$piece" "$tmp/err"
	check "sluice $* exits $code and says \"$piece\"" $?
}

# usage
refuses 2 'sluice help'
refuses 2 'did you mean "stats"' stat
refuses 2 'did you mean "vm create"' vm creat
refuses 2 'did you mean "attach-process"' attach-proces v 1
refuses 2 'sluice help vm' vm
refuses 2 'sluice help' frobnicate
refuses 2 'unknown option --bogus' vm list --bogus
refuses 2 'unknown option --bogus' --bogus vm list
refuses 2 'unknown option -z' exec -z v -- ls
refuses 2 'wants URL' --server
refuses 2 'takes no value' exec --detach=1 v -- ls
refuses 2 'put --' exec v ls
refuses 2 'put --' exec v
refuses 2 'put --' exec v --
refuses 2 'wants: VM' vm get
refuses 2 'wants: VM' vm get a b
refuses 2 'nothing after --' vm list -- x
refuses 2 'K=V' exec -e novalue v -- ls
refuses 2 'duration' exec --timeout 5x v -- ls
refuses 2 'duration' exec --timeout 99999999999999999999 v -- ls
refuses 2 'SRC:DST' vm create --mount a:b
refuses 2 'KEY=VALUE' vm create --limit x
refuses 2 'KEY=VALUE' vm create --env =x
refuses 2 'a number' kill v x
refuses 2 'from 1 on' kill v 0
refuses 2 'no such signal' kill v 1 FOO
refuses 2 'no such signal' kill v 1 65
refuses 2 'either' session open v
refuses 2 'either' session open v --agent a -- b
refuses 2 '--policy' session open v --agent a --policy maybe
refuses 2 'prompt is empty' prompt s ''
refuses 2 'prompt is empty' prompt s -
refuses 2 'either' permit s 1
refuses 2 'either' permit s 1 yes --deny
refuses 2 'a number' history s --after x
refuses 2 'at most' history s --limit 4294967296
refuses 2 'address' --server http://x vm list
refuses 1 'not implemented' exec -t v -- sh

# no server: says how to start one
for c in 'vm list' 'vm create' 'vm get v' 'vm delete v' 'exec v -- ls' \
    'attach-process v 1' 'ps v' 'kill v 1' 'session list' 'session get s' \
    'session open v --agent a' 'session unload s' 'session delete s' \
    'prompt s hi' 'cancel s' 'permit s 1 yes' 'permissions' 'history s' \
    'attach s' 'stats' 'doctor'; do
	# shellcheck disable=SC2086
	refuses 3 'start one with: sluiced' $c
done
refuses 3 'is sluiced listening there' --server "unix://$tmp/none" vm list
refuses 3 'doctor shows what a server finds' doctor
SLUICE_URL=unix://$tmp/none refuses 3 "$tmp/none" vm list

# help and version
"$sluice" --version >"$tmp/out" 2>"$tmp/err" &&
    grep -qE '^sluice [0-9]+\.[0-9]+\.[0-9]+$' "$tmp/out" && [ ! -s "$tmp/err" ]
check '--version' $?
"$sluice" help >"$tmp/help" 2>"$tmp/err" && [ ! -s "$tmp/err" ]
check 'help' $?
awk 'length > 100 { exit 1 }' "$tmp/help"
check 'help fits the screen' $?
! grep -qwE 'fs|port|snapshot|image|secret|tenant|acp|shell|fetch|top' "$tmp/help"
check 'help lists only what there is' $?
for c in 'vm create' exec 'session open' prompt permit history; do
	# shellcheck disable=SC2086
	"$sluice" help $c >"$tmp/out" 2>"$tmp/err" && grep -q -- '--' "$tmp/out"
	check "help $c shows its options" $?
done
for c in vm session 'vm create' exec; do
	# shellcheck disable=SC2086
	"$sluice" $c --help >"$tmp/out" 2>"$tmp/err" && grep -q '^usage: ' "$tmp/out" &&
	    [ ! -s "$tmp/err" ]
	check "$c --help" $?
done
"$sluice" nonsense --help >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ]
check '--help of an unknown command exits 2' $?
"$sluice" help nonsense >"$tmp/out" 2>"$tmp/err"
[ $? -eq 2 ]
check 'help of an unknown command exits 2' $?

# stdout that cannot be written is a failure, said once
"$sluice" help >/dev/full 2>"$tmp/err"
[ $? -eq 1 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ]
check 'a full device is a failure' $?
"$sluice" help >&- 2>"$tmp/err"
[ $? -eq 1 ] && [ "$(wc -l <"$tmp/err")" -eq 1 ]
check 'a closed stdout is a failure' $?
"$sluice" help 2>"$tmp/err" | true
[ "${PIPESTATUS[0]}" -le 1 ]
check 'a reader that left kills nobody' $?
exit 0
