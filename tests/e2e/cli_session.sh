#!/bin/bash
# TAGS: user
# SPDX-License-Identifier: Apache-2.0
# sluice session, prompt, permit, history, attach on a real server, with the
# agent that ships with it: exit codes, what stands on stdout and what on
# stderr, reconnection after a kill of the server in the middle of a turn.
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice
server_start
vm=$("$sluice" vm create) || exit 1

prompt() { timeout 60 "$sluice" prompt "$@" >"$D/out" 2>"$D/err"; }

# open
s=$("$sluice" session open "$vm" --agent shell 2>"$D/err")
check 'session open prints an id when the session is idle' $? "$D/err"
"$sluice" session get "$s" | grep -qE '^state +idle$'
check 'it is idle' $?
x=$("$sluice" session open "$vm" -- /bin/false 2>"$D/err")
[ $? -eq 1 ] && [ -n "$x" ] && [ "$(wc -l <"$D/err")" -eq 1 ] && grep -q 'step' "$D/err"
check 'an agent that dies: status 1, the id, one line with the step' $? "$D/err"
"$sluice" session open "$vm" --agent nobody >"$D/out" 2>"$D/err"
[ $? -eq 1 ] && [ ! -s "$D/out" ]
check 'an agent that is not registered' $? "$D/err"
x=$("$sluice" session open "$vm" --no-wait -- sleep 60 2>"$D/err")
"$sluice" session get "$x" | grep -qE '^state +opening$'
check '--no-wait returns while it opens' $? "$D/err"
"$sluice" session delete "$x"
check 'and it can be deleted' $?

# a turn with its permission
fresh "$D/out" "$D/err"
prompt "$s" 'echo hello; echo err >&2' &
pid=$!
req() { r=$("$sluice" permissions "$s" | awk '{ print $2 }'); [ -n "$r" ]; }
until_ok req
req
until_ok grep -q "sluice permit $s $r " "$D/err"
check 'prompt says how to answer the request' $? "$D/err"
"$sluice" permit "$s" "$r" no-such-option >/dev/null 2>"$D/err2"
[ $? -eq 1 ]
check 'an option that was not offered is refused' $? "$D/err2"
"$sluice" permit "$s" "$r" allow
check 'permit' $?
wait $pid
[ $? -eq 0 ] && grep -q hello "$D/out" && ! grep -q sluice "$D/out"
check 'end_turn is status 0; stdout is the text alone' $? "$D/out"
"$sluice" permit "$s" "$r" reject >/dev/null 2>"$D/err2"
[ $? -eq 1 ] && ! grep -q 'try again' "$D/err2"
check 'a second, other answer is refused' $? "$D/err2"

# denial
fresh "$D/out" "$D/err"
prompt "$s" 'touch /root/never' &
pid=$!
until_ok req
req
"$sluice" permit "$s" "$r" --deny
wait $pid
"$sluice" exec "$vm" -- test ! -e /root/never </dev/null
check '--deny: the command did not run' $?

# one key, one turn
a=$("$sluice" session open "$vm" --agent shell --policy allow_all)
prompt "$a" 'date +%N >>/root/log; cat /root/log' --key k1
one=$(cat "$D/out")
prompt "$a" 'date +%N >>/root/log; cat /root/log' --key k1
[ $? -eq 0 ] && [ "$(cat "$D/out")" = "$one" ] && [ -n "$one" ]
check 'the same key is the same turn, with the same text' $? "$D/out"
prompt "$a" 'something else' --key k1
[ $? -eq 4 ]
check 'the same key with other text is refused' $? "$D/err"
echo 'echo from stdin' | timeout 60 "$sluice" prompt "$a" - >"$D/out" 2>"$D/err"
[ $? -eq 0 ] && grep -q 'from stdin' "$D/out"
check 'a prompt from standard input' $? "$D/err"

# busy, queue, cancel
fresh "$D/out" "$D/err"
prompt "$a" 'echo up; sleep 60' &
pid=$!
until_ok grep -q up "$D/out"
"$sluice" prompt "$a" 'echo no' >/dev/null 2>"$D/err2"
[ $? -eq 4 ] && grep -q SESSION_BUSY "$D/err2"
check 'a second prompt is refused while a turn runs' $? "$D/err2"
"$sluice" prompt "$a" --queue 'echo queued' >"$D/out2" 2>"$D/err2" &
q=$!
"$sluice" cancel "$a"
wait $pid
[ $? -eq 1 ] && grep -q canceled "$D/err"
check 'cancel: prompt exits 1 and says canceled' $? "$D/err"
wait $q
[ $? -eq 0 ] && grep -q queued "$D/out2"
check '--queue runs after it' $? "$D/err2"
"$sluice" cancel "$a" 2>"$D/err2"
check 'cancel of an idle session does nothing' $? "$D/err2"

prompt "$a" 'echo so far; exit 3'
[ $? -eq 0 ] && grep -q 'tool failed: .*exit code 3' "$D/err"
check 'a tool that fails is told, though the turn ends with end_turn' $? "$D/err"

# history
"$sluice" history "$a" >"$D/all"
python3 - "$D/all" <<'PY'
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
seqs = [r["seq"] for r in rows]
ok = seqs == list(range(1, len(seqs) + 1))
ok = ok and all("payload" in r or "payload_text" in r or "payload_b64" in r for r in rows)
ok = ok and {"agent", "turn_started", "turn_ended"} <= {r["kind"] for r in rows}
sys.exit(0 if ok else 1)
PY
check 'history: one object a line, no number missing' $?
head=$(wc -l <"$D/all")
"$sluice" history "$a" --after 2 --limit 3 >"$D/part"
[ "$(sed -n 3,5p "$D/all")" = "$(cat "$D/part")" ]
check 'history --after --limit' $?
"$sluice" history "$a" --before 4 >"$D/part"
[ "$(sed -n 1,3p "$D/all" | tac)" = "$(cat "$D/part")" ]
check 'history --before: newest first' $?
mkfifo "$D/never"
"$sluice" history "$a" | (read -r -t 0.3 _ <>"$D/never"; cat) | cmp -s - "$D/all"
check 'history on a slow pipe has the same bytes' $?

# attach, live, across a killed server; the interrupted turn is lost
fresh "$D/live"
timeout 60 "$sluice" attach "$a" --from "$head" >"$D/live" 2>"$D/err2" &
live=$!
until_ok test -s "$D/live"
fresh "$D/out" "$D/err"
prompt "$a" 'echo up; sleep 60' &
pid=$!
until_ok grep -q up "$D/out"
server_kill KILL
server_start
wait $pid
[ $? -eq 1 ] && grep -q lost "$D/err"
check 'the interrupted turn is lost, and prompt says so' $? "$D/err"
until_ok grep -q '"outcome":"lost"' "$D/live"
check 'attach goes on after the restart' $? "$D/err2"
kill $live
wait $live 2>/dev/null
"$sluice" history "$a" --after $((head - 1)) >"$D/part"
n=$(wc -l <"$D/live")
head -n "$n" "$D/part" | cmp -s - "$D/live"
check 'what attach showed is the history, nothing twice' $? "$D/live"
"$sluice" history "$a" --limit "$head" | cmp -s - "$D/all"
check 'what was there before the kill is there to the byte' $?
prompt "$a" 'echo again'
[ $? -eq 0 ] && grep -q again "$D/out"
check 'the next prompt works' $? "$D/err"

"$sluice" session unload "$a" && "$sluice" session list | grep -q unloaded
check 'unload' $?
"$sluice" session delete "$a" && ! "$sluice" session get "$a" >/dev/null 2>&1
check 'delete' $?
exit 0
