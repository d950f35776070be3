#!/bin/bash
# TAGS: user timeout=180
# SPDX-License-Identifier: Apache-2.0
# make install: what is installed runs from where it stands, with its helpers,
# its library, its manual pages, and without the source tree.
# shellcheck source=/dev/null
. "$SLUICE_SRC/tests/lib/cli.sh"
make -C "$SLUICE_SRC" V="${SLUICE_BUILD##*/}" DESTDIR="$D/root" PREFIX=/opt/sluice \
    install-files >"$D/out" 2>&1
check 'make install with DESTDIR and PREFIX' $? "$D/out"
at=$D/root/opt/sluice
find "$D/root" -type f ! -path "$at/*" >"$D/out"
[ ! -s "$D/out" ]
check 'nothing outside the prefix' $? "$D/out"
bad=0
for f in bin/sluice bin/sluiced lib/libsluice.so lib/libsluice.so.0 lib/libsluice.a \
    lib/pkgconfig/libsluice.pc include/sluice.h include/sluice/vm.h \
    libexec/sluice/sluice-spawner libexec/sluice/sluice-opener \
    libexec/sluice/sluice-pid1 libexec/sluice/guest/sluice-agent-shell; do
	[ -s "$at/$f" ] || { echo "# no $f"; bad=1; }
done
for f in "$SLUICE_SRC"/docs/man/*.[1-8]; do
	cmp -s "$f" "$at/share/man/man${f##*.}/${f##*/}" || { echo "# no manual ${f##*/}"; bad=1; }
done
check 'programs, helpers, library, headers and manual pages are there' $bad
grep -qx 'prefix=/opt/sluice' "$at/lib/pkgconfig/libsluice.pc"
check 'libsluice.pc names the prefix, not the staging directory' $?

sluice=$at/bin/sluice
"$at/bin/sluiced" >"$D/server.log" 2>&1 &
export server_pid=$!
until_ok "$sluice" stats
check 'the installed server starts and answers' $? "$D/server.log"
"$sluice" doctor >"$D/out" 2>&1 && grep -qF "$at/libexec/sluice/guest" "$D/out"
check 'it uses the installed helpers' $? "$D/out"
ldd "$sluice" >"$D/out"; grep -qE "$at/(bin/../)?lib/libsluice.so.0" "$D/out"
check 'the command uses the installed library' $?
vm=$("$sluice" vm create) && [ "$("$sluice" exec "$vm" -- echo hello)" = hello ]
check 'a command in a VM' $? "$D/server.log"
s=$("$sluice" session open "$vm" --agent shell --policy allow_all) &&
    [ "$("$sluice" prompt "$s" 'echo turn' 2>/dev/null)" = turn ]
check 'a turn of the installed agent' $? "$D/server.log"

# The example of libsluice(3) as it stands, on what is installed.
if [ "${SLUICE_BUILD##*/}" = debug ] && command -v cc >/dev/null; then
	{
		printf '#include <sluice.h>\n#include <stdio.h>\n'
		sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$at/share/man/man3/libsluice.3" |
		    sed '/^\./d; /^Make a VM/d; s/\\e/\\/g'
	} >"$D/x.c"
	cc -Wall -Werror -I"$at/include" "$D/x.c" -L"$at/lib" -lsluice \
	    -Wl,-rpath,"$at/lib" -o "$D/x" >"$D/err" 2>&1 &&
	    x=$("$D/x" 2>"$D/err") && "$sluice" vm get "$x" >"$D/out"
	check 'the example of libsluice(3) is built on it and makes a VM' $? "$D/err"
fi
server_kill TERM
exit 0
