#!/bin/bash
# TAGS:
# SPDX-License-Identifier: Apache-2.0
# The manuals against the code: every exported function and error of the header
# in libsluice(3) or the header's list, every command and option that sluice
# knows in sluice(1), and no command there that it does not know.
set -u
cd "$SLUICE_SRC" || exit 1
sluice=$SLUICE_BUILD/bin/sluice
n=0
check() { # text status
	n=$((n + 1))
	if [ "$2" -eq 0 ]; then echo "ok $n - $1"; else echo "not ok $n - $1"; fi
}

bad=0
while read -r s; do
	grep -qE "^\.Fn $s( |\$)" docs/man/libsluice.3 || {
		echo "# libsluice.3: no $s"
		bad=1
	}
done <tests/abi/libsluice.symbols
check 'every exported function is in libsluice(3)' $bad

bad=0
for s in $(grep -oE '^\.Fn sluice_[a-z_]+' docs/man/libsluice.3 | sed 's/.* //' | sort -u); do
	grep -qx "$s" tests/abi/libsluice.symbols || {
		echo "# libsluice.3: $s is not exported"
		bad=1
	}
done
check 'libsluice(3) has no other function' $bad

# "  vm create ...   what" lines of the help: the words before the arguments.
mapfile -t cmds < <("$sluice" help | sed -n 's/^  \([a-z].*\)/\1/p' |
    sed 's/  .*//; s/ *[[A-Z].*//')
[ "${#cmds[@]}" -ge 20 ]
check "help lists ${#cmds[@]} commands" $?

bad=0
for c in "${cmds[@]}"; do
	grep -qE "^\.It Cm $c( |\$)" docs/man/sluice.1 || {
		echo "# sluice.1: no command $c"
		bad=1
		continue
	}
	# shellcheck disable=SC2086
	for o in $("$sluice" help $c | grep -oE -- '^ +(-[a-z], )?--[a-z-]+' | grep -oE -- '-+[a-z-]+'); do
		grep -qE "Fl ${o#-}( |\$)" docs/man/sluice.1 || {
			echo "# sluice.1: no option $o of $c"
			bad=1
		}
	done
done
check 'every command and option is in sluice(1)' $bad

bad=0
while read -r c; do
	printf '%s\n' "${cmds[@]}" help | grep -qx "$c" || {
		echo "# sluice.1: command \"$c\" does not exist"
		bad=1
	}
done < <(grep -oE '^\.It Cm [a-z-]+( (create|list|get|delete|open|unload))?' docs/man/sluice.1 |
    sed 's/^\.It Cm //' | sort -u)
check 'sluice(1) has no other command' $bad
exit 0
