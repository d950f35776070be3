#!/bin/bash
# TAGS: user
# SPDX-License-Identifier: Apache-2.0
# The configuration file and flags of sluiced, without starting it.
set -u
D=$(mktemp -d) || exit 1
trap 'rm -rf "$D"' EXIT
sluiced=$SLUICE_BUILD/bin/sluiced
n=0
ok() { n=$((n + 1)); echo "ok $n - $1"; }
no() { n=$((n + 1)); echo "not ok $n - $1: $2"; }
# refuses NAME CONTENT PATTERN: status 2, one line with file, line and reason
refuses() {
	printf '%b' "$2" >"$D/c"
	out=$("$sluiced" -t -c "$D/c" 2>&1)
	rc=$?
	if [ $rc = 2 ] && [[ $out == *"$3"* ]]; then ok "$1"; else no "$1" "$rc $out"; fi
}
refuses "unknown keyword" 'state /x\nbogus 1\n' "$D/c:2: unknown keyword"
refuses "missing value" 'listen\n' "$D/c:1: listen: expected"
refuses "relative state" 'state x\n' "an absolute path"
refuses "bad uid line" 'uid 1 2\n' "UID TENANT ROLE"
refuses "tenant 0" 'uid 1 0 user\n' "UID TENANT ROLE"
refuses "bad role" 'uid 1 1 king\n' "a role"
refuses "agent without command" 'agent x\n' "a command after the name"
refuses "agent twice" 'agent x /a\nagent x /b\n' ":2: agent"
refuses "bad address" 'listen foo\n' 'use unix:///PATH or tcp://HOST:PORT'
refuses "TCP without the flag" 'listen tcp://127.0.0.1:1\n' "--insecure-loopback"
refuses "TCP beyond loopback" 'listen tcp://10.0.0.1:1\ninsecure_loopback yes\n' "loopback"
refuses "bad yes" 'insecure_loopback maybe\n' "yes or no"
refuses "bad level" 'log_level loud\n' "err, warn, notice"
refuses "unknown limit" 'vm.bogus 3\n' ":1:"
refuses "limit out of bounds" 'vm.pids 1\n' ":1:"
out=$("$sluiced" -t -c "$D/none" 2>&1)
[ $? = 2 ] && [[ $out == *"cannot open"* ]] && ok "missing file" || no "missing file" "$out"
printf 'state %s/s\nvm.pids 77\nagent mine /bin/mine --acp # note\nuid 7 3 viewer\n' "$D" >"$D/c"
out=$("$sluiced" -T -c "$D/c" 2>&1)
rc=$?
for want in "state $D/s" "vm.pids 77" "agent mine /bin/mine --acp" "uid 7 3 viewer" \
    "agent shell " "log_level notice" "insecure_loopback no"; do
	if [ $rc = 0 ] && grep -qF "$want" <<<"$out"; then ok "-T shows $want"; else no "-T shows $want" "$rc"; fi
done
"$sluiced" -T -c "$D/c" >"$D/c2" && "$sluiced" -T -c "$D/c2" >"$D/c3" && cmp -s "$D/c2" "$D/c3" &&
	ok "what -T prints can be read again" || no "what -T prints can be read again" "$(diff "$D/c2" "$D/c3" 2>&1 | head -3)"
"$sluiced" -T -c "$D/c" --state /other --listen unix:///q/s --log-level debug >"$D/c2" &&
	grep -qx 'state /other' "$D/c2" && grep -qx 'listen unix:///q/s' "$D/c2" && grep -qx 'log_level debug' "$D/c2" &&
	ok "flags over file" || no "flags over file" "$(cat "$D/c2")"
"$sluiced" extra >/dev/null 2>&1
[ $? = 2 ] && ok "an argument too many" || no "an argument too many" ""
"$sluiced" --version | grep -q '^sluiced [0-9]' && ok "--version" || no "--version" ""
echo "1..$n"
