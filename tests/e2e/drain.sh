#!/bin/bash
# TAGS: user timeout=180
# SPDX-License-Identifier: Apache-2.0
# SIGTERM while turns run: one that ends within drain_s is completed, one that
# does not is lost with reason server_stopped, new ones are refused; all of it
# stands in the history of the next server.
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
sluice=$SLUICE_BUILD/bin/sluice
: "${server_pid:=}" # set by server_start
echo 'drain_s 2' >"$D/conf"
server_start -c "$D/conf"
vm=$("$sluice" vm create) || exit 1
open() { "$sluice" session open "$vm" --agent shell --policy allow_all; }
short=$(open)
long=$(open)
idle=$(open)
fresh "$D/short" "$D/long" "$D/short.err" "$D/long.err"
"$sluice" prompt "$short" 'echo up; sleep 1; echo finished' >"$D/short" 2>"$D/short.err" &
p1=$!
"$sluice" prompt "$long" 'echo up; sleep 600' >"$D/long" 2>"$D/long.err" &
p2=$!
until_ok grep -q up "$D/short"
until_ok grep -q up "$D/long"
t0=$(date +%s%N)
kill -TERM "$server_pid"
until_ok grep -q draining "$D/server.log"
"$sluice" prompt "$idle" 'echo no' >"$D/out" 2>"$D/err"
[ $? -eq 4 ] && grep -q DRAINING "$D/err" && [ ! -s "$D/out" ]
check 'a new prompt is refused while the server drains' $? "$D/err"
wait "$server_pid"
rc=$?
ms=$((($(date +%s%N) - t0) / 1000000))
[ $rc -eq 0 ] && [ $ms -ge 1900 ] && [ $ms -lt 15000 ]
check "the server ends by itself after drain_s ($ms ms)" $? "$D/server.log"
wait $p1
[ $? -eq 0 ] && grep -q finished "$D/short"
check 'the turn that ended in time is completed' $? "$D/short.err"
server_start -c "$D/conf"
wait $p2
[ $? -eq 1 ] && grep -q 'lost' "$D/long.err" && grep -q server_stopped "$D/long.err"
check 'the other is lost: server_stopped' $? "$D/long.err"
"$sluice" history "$short" | grep '"turn_ended"' >"$D/out"
[ "$(wc -l <"$D/out")" -eq 1 ] && grep -q '"outcome":"completed"' "$D/out"
check 'so the next server says of the first' $? "$D/out"
"$sluice" history "$long" | grep '"turn_ended"' >"$D/out"
[ "$(wc -l <"$D/out")" -eq 1 ] && grep -q '"outcome":"lost"' "$D/out" &&
    grep -q '"server_stopped"' "$D/out"
check 'and of the second' $? "$D/out"
[ "$("$sluice" prompt "$long" 'echo again' 2>"$D/err")" = again ]
check 'whose next prompt works' $? "$D/err"

# A second signal does not wait.
fresh "$D/long"
"$sluice" prompt "$long" 'echo up; sleep 600' >"$D/long" 2>"$D/long.err" &
p2=$!
until_ok grep -q up "$D/long"
sed -i 's/.*/drain_s 600/' "$D/conf"
server_kill TERM
server_start -c "$D/conf"
wait $p2
"$sluice" prompt "$long" 'echo up; sleep 600' >"$D/long" 2>"$D/long.err" &
p2=$!
until_ok grep -q up "$D/long"
kill -TERM "$server_pid"
until_ok grep -q 'drain_ms=600000' "$D/server.log"
kill -TERM "$server_pid"
wait "$server_pid"
[ $? -eq 0 ]
check 'a second signal stops it at once' $? "$D/server.log"
server_start -c "$D/conf"
wait $p2
"$sluice" history "$long" | grep '"turn_ended"' | tail -1 | grep -q '"outcome":"lost"'
check 'and that turn is lost too' $?
exit 0
