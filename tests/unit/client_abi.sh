#!/bin/bash
# TAGS:
# SPDX-License-Identifier: Apache-2.0
# What libsluice.so shows to the world: exactly the symbols of
# tests/abi/libsluice.symbols under version SLUICE_0, the right SONAME, and no
# library beneath it but those it may have. And the command uses nothing else.
set -u
so=$SLUICE_BUILD/lib/libsluice.so.0
sluice=$SLUICE_BUILD/bin/sluice
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0
check() { # text status
	n=$((n + 1))
	if [ "$2" -eq 0 ]; then echo "ok $n - $1"; else
		echo "not ok $n - $1"
		sed 's/^/# /' "$tmp/why"
	fi
}
: >"$tmp/why"

nm -D --defined-only "$so" | awk '$2 != "A" { print $3 }' | sort >"$tmp/have"
sed 's/$/@@SLUICE_0/' "$SLUICE_SRC/tests/abi/libsluice.symbols" | sort >"$tmp/want"
diff "$tmp/want" "$tmp/have" >"$tmp/why"
check 'exported symbols are those of the list' $?

readelf -d "$so" >"$tmp/dyn"
grep -q 'SONAME.*\[libsluice\.so\.0\]' "$tmp/dyn"
check 'SONAME' $?

grep NEEDED "$tmp/dyn" | sed 's/.*\[//; s/\]//' |
    grep -vE '^(libc|libprotobuf-c|libsodium|lib(asan|ubsan|tsan|lsan)|libm|libgcc_s|libpthread|ld-linux.*)\.so' \
    >"$tmp/why"
[ ! -s "$tmp/why" ]
check 'needs neither nng nor sqlite' $?

# No thread, no signal disposition, no exit of the embedder.
nm -D --undefined-only "$so" | awk '{ print $2 }' | sed 's/@.*//' |
    grep -xE 'pthread_create|thrd_create|signal|sigaction|exit|_exit|fork|system|popen|atexit|pthread_atfork|setenv|putenv' \
    >"$tmp/why"
[ ! -s "$tmp/why" ]
check 'starts no thread, touches no signal, ends no process' $?

# Every public name that the command uses is in the list; it has no other.
nm -D --undefined-only "$sluice" | awk '{ print $2 }' | grep -E '^sl(i|uice)_' |
    sed 's/@.*//' | sort -u >"$tmp/used"
comm -23 "$tmp/used" <(sort "$SLUICE_SRC/tests/abi/libsluice.symbols") >"$tmp/why"
[ -s "$tmp/used" ] && [ ! -s "$tmp/why" ]
check 'the command uses public names only' $?
exit 0
