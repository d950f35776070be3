#!/bin/bash
# TAGS: user
# SPDX-License-Identifier: Apache-2.0
# sluice exec, ps, kill, attach-process on a real server: bytes, exit statuses,
# signals, back-pressure, and output that is never cut (B52).
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice
server_start
vm=$("$sluice" vm create --name cli --env V=vm) || exit 1

run() { "$sluice" exec "$@" >"$D/out" 2>"$D/err"; }

# statuses
run "$vm" -- sh -c 'echo out; echo err >&2; exit 7' </dev/null
[ $? -eq 7 ] && [ "$(cat "$D/out")" = out ] && [ "$(cat "$D/err")" = err ]
check 'the exit status and both outputs are the process'\''s' $? "$D/err"
run "$vm" -- sh -c 'kill -15 $$' </dev/null
[ $? -eq 143 ]
check '128 + n when a signal ended it' $?
run "$vm" -- /no/such/program </dev/null
[ $? -eq 127 ] && [ "$(wc -l <"$D/err")" -eq 1 ]
check 'a command that is not there: 127 and one line' $? "$D/err"
run "$vm" -- no-such-program </dev/null
[ $? -eq 127 ] && [ "$(wc -l <"$D/err")" -eq 1 ]
check 'nor anywhere in PATH: 127' $? "$D/err"
run --detach "$vm" -- no-such-program </dev/null
[ $? -eq 127 ] && [ ! -s "$D/out" ]
check 'the same detached' $? "$D/err"
run "$vm" -- /etc/passwd </dev/null
[ $? -eq 126 ] && [ "$(wc -l <"$D/err")" -eq 1 ]
check 'what cannot be executed: 126 and one line' $? "$D/err"
run "$vm" -- /tmp </dev/null
[ $? -eq 126 ]
check 'a directory too' $? "$D/err"
run -w /no/such "$vm" -- true </dev/null
[ $? -eq 1 ]
check 'a working directory that is not there: 1' $? "$D/err"
run --timeout 200ms "$vm" -- sleep 60 </dev/null
[ $? -eq 137 ] && grep -q -- --timeout "$D/err"
check '--timeout kills it and says so' $? "$D/err"
run no-such-vm -- true </dev/null
[ $? -eq 1 ] && grep -q NOT_FOUND "$D/err"
check 'a VM that does not exist' $? "$D/err"

# what it is given
run -w /tmp -e A=b -e 'C=d e' "$vm" -- sh -c 'pwd; echo "$A/$C/$V"' </dev/null
[ "$(cat "$D/out")" = $'/tmp\nb/d e/vm' ]
check '-w, -e and the environment of the VM' $? "$D/out"
run "$vm" -- printf '%s\n' '' 'a b' '*' "quo'te" </dev/null
[ "$(cat "$D/out")" = $'\na b\n*\nquo\'te' ]
check 'arguments arrive as they are' $? "$D/out"

# bytes
head -c 20000000 /dev/urandom >"$D/big"
sum=$(md5sum <"$D/big")
[ "$("$sluice" exec "$vm" -- cat <"$D/big" | md5sum)" = "$sum" ]
check '20 MB through stdin and stdout of cat' $?
[ "$("$sluice" exec "$vm" -- sh -c 'cat >&2' <"$D/big" 2>&1 >/dev/null | md5sum)" = "$sum" ]
check 'the same on stderr' $?
printf 'no newline' | "$sluice" exec "$vm" -- cat >"$D/out"
[ "$(cat "$D/out")" = 'no newline' ]
check 'stdin is closed at its end' $?
"$sluice" exec "$vm" -- cat <&- >"$D/out" 2>"$D/err"
check 'a closed stdin is an empty one' $? "$D/err"

# B52: a slow reader, a failing exit, a non-blocking stdout, no stdout
n=3000000
mkfifo "$D/never"
for what in "yes | head -c $n" "yes | head -c $n; exit 9"; do
	"$sluice" exec "$vm" -- sh -c "$what" </dev/null 2>"$D/err" |
	    (read -r -N 1 _; read -r -t 0.5 _ <>"$D/never"; cat) | wc -c >"$D/out"
	[ "$(cat "$D/out")" -eq $((n - 1)) ]
	check "no byte is cut on a pipe ($what)" $? "$D/out"
done
python3 - "$sluice" "$vm" "$n" >"$D/out" 2>&1 <<'PY'
import os, subprocess, sys, time
sluice, vm, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
r, w = os.pipe()
os.set_blocking(w, False)
p = subprocess.Popen([sluice, "exec", vm, "--", "head", "-c", str(n),
    "/dev/zero"], stdin=subprocess.DEVNULL, stdout=w)
os.close(w)
got = 0
while b := os.read(r, 65536):
    got += len(b)
    time.sleep(0.001)
sys.exit(0 if got == n and p.wait() == 0 else 1)
PY
check 'a stdout that is non-blocking is waited for' $? "$D/out"
"$sluice" exec "$vm" -- head -c $n /dev/zero </dev/null >/dev/full 2>"$D/err"
[ $? -eq 1 ] && [ "$(wc -l <"$D/err")" -eq 1 ]
check 'a full device: status 1 and one line' $? "$D/err"
"$sluice" exec "$vm" -- yes </dev/null 2>"$D/err" | head -1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 1 ]
check 'a reader that left ends the process' $? "$D/err"
"$sluice" ps "$vm" | awk '/ yes$/ && $2 == "running" { bad = 1 } END { exit bad }'
check 'and it runs no more' $?

# signals
fresh "$D/out" "$D/err"
"$sluice" exec "$vm" -- sh -c 'trap "echo caught; exit 5" TERM; echo up; while :; do sleep 0.05; done' \
    </dev/null >"$D/out" 2>"$D/err" &
pid=$!
until_ok grep -q up "$D/out"
kill -TERM $pid
wait $pid
[ $? -eq 5 ] && grep -q caught "$D/out"
check 'TERM reaches the process' $? "$D/err"
# A process that reads nothing must not hold a signal up.
fresh "$D/out" "$D/err"
"$sluice" exec "$vm" -- sh -c 'echo up; exec sleep 60' </dev/zero >"$D/out" 2>"$D/err" &
pid=$!
until_ok grep -q up "$D/out"
kill -INT $pid
wait $pid
[ $? -eq 130 ]
check 'INT overtakes stdin that nobody reads' $? "$D/err"

# detach, attach, kill
p=$("$sluice" exec --detach "$vm" -- sh -c 'echo one; sleep 0.3; echo two; exit 4' </dev/null)
[[ $p =~ ^[0-9]+$ ]]
check '--detach prints the pid' $?
"$sluice" attach-process "$vm" "$p" >"$D/out" 2>"$D/err"
[ $? -eq 4 ] && [ "$(cat "$D/out")" = $'one\ntwo' ]
check 'attach-process gives its output and status' $? "$D/out"
"$sluice" attach-process "$vm" "$p" --from 4 >"$D/out" 2>"$D/err"
[ $? -eq 4 ] && [ "$(cat "$D/out")" = two ]
check 'attach-process --from' $? "$D/out"
p=$("$sluice" --json exec --detach "$vm" -- sleep 60 </dev/null | sed 's/[^0-9]//g')
"$sluice" kill "$vm" "$p" TERM && "$sluice" attach-process "$vm" "$p" 2>/dev/null
[ $? -eq 143 ]
check 'kill with a signal' $?
p=$("$sluice" exec --detach "$vm" -- sh -c 'trap "" TERM; sleep 60' </dev/null)
"$sluice" kill "$vm" "$p" && "$sluice" attach-process "$vm" "$p" 2>/dev/null
[ $? -eq 137 ]
check 'kill without one takes the tree' $?
"$sluice" --json ps "$vm" | python3 -c '
import json, sys
rows = [json.loads(l) for l in sys.stdin]
sys.exit(0 if rows and all("pid" in r and r["argv"] for r in rows) else 1)'
check 'ps --json is one object a line' $?

# the server goes away in the middle
fresh "$D/out" "$D/err"
"$sluice" exec "$vm" -- sh -c 'echo up; sleep 60' </dev/null >"$D/out" 2>"$D/err" &
pid=$!
until_ok grep -q up "$D/out"
server_kill KILL
wait $pid
[ $? -eq 1 ] && grep -q 'connection lost' "$D/err"
check 'a lost server is a failure, not an exit status' $? "$D/err"
exit 0
