#!/bin/bash
# TAGS:
# SPDX-License-Identifier: Apache-2.0
# The checks of make lint find what they are there for: each is given one
# planted fault and one clean file.
set -u
cd "$(dirname "$0")/../.." || exit 1
dev=$PWD/tools/dev
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
mkdir -p common/base common/wire server/vm server/acp server/store tools
n=0

result() { # 0|1 text
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}
finds() { # text command...
	local t=$1
	shift
	if "$@" >out 2>&1; then result 1 "$t"; else result 0 "$t"; fi
}
passes() {
	local t=$1
	shift
	if "$@" >out 2>&1; then result 0 "$t"; else
		sed 's/^/# /' out
		result 1 "$t"
	fi
}
file() { printf '%b' "$2" >"$1"; }
head='/* SPDX-License-Identifier: Apache-2.0 */\n/* A file. */\n'
layers() { awk -f "$dev/layers.awk" "$dev/layers.txt" "$1"; }
banned() { awk -f "$dev/banned.awk" "$1"; }
sizes() { awk -f "$dev/sizes.awk" "$1"; }

file server/vm/a.c "$head#include \"loop/loop.h\"\n#include \"base/err.h\"\n"
passes 'a granted include' layers server/vm/a.c
file server/vm/b.c "$head#include \"acp/acp.h\"\n"
finds 'a sibling engine' layers server/vm/b.c
file common/base/c.c "$head#include \"wire/mux.h\"\n"
finds 'an upward include' layers common/base/c.c
file server/acp/d.c "$head#include <sqlite3.h>\n"
finds 'a library in a foreign room' layers server/acp/d.c
file server/store/d.c "$head#include <sqlite3.h>\n"
passes 'a library in its room' layers server/store/d.c
file tools/e.c "$head#include \"base/err.h\"\n"
finds 'the command behind the public header' layers tools/e.c
file server/vm/f.c "$head#include \"../acp/acp.h\"\n"
finds 'a way around by dots' layers server/vm/f.c
mkdir -p elsewhere
file elsewhere/g.c "$head"
finds 'a file without a room' layers elsewhere/g.c

file server/vm/h.c "$head"'int f(void)\n{\n\treturn atoi("1");\n}\n'
finds 'a banned function' banned server/vm/h.c
file server/vm/h.c "$head"'int f(void)\n{\n\tp = malloc(1);\n}\n'
finds 'raw malloc' banned server/vm/h.c
file server/vm/h.c "$head"'/* atoi() is bad */\nint f(void)\n{\n\ts = "free(x)";
\tx.free(1); o->exit(2); sli_free(p); /* a\n rand() b */\n}\n'
passes 'comments, strings, members and longer names' banned server/vm/h.c
file server/vm/h.c "$head"'\tsleep(1); /* banned-ok: no event to wait for */\n'
passes 'an exception with a reason' banned server/vm/h.c
file tools/i.c "$head"'\tp = malloc(1);\n\texit(1);\n'
passes 'malloc in a program of its own' banned tools/i.c

file server/vm/j.c '/* no licence */\n/* A file. */\n'
finds 'a missing licence line' sizes server/vm/j.c
file server/vm/j.c '/* SPDX-License-Identifier: Apache-2.0 */\n\nint x;\n'
finds 'a file that does not say what it is for' sizes server/vm/j.c
{
	printf '%b' "$head"
	seq -f 'int v%g;' 499
} >server/vm/k.c
finds 'a file over 500 lines' sizes server/vm/k.c
{
	printf '%bint\nf(void)\n{\n' "$head"
	seq -f '	g(%g);' 71
	echo '}'
} >server/vm/l.c
finds 'a function over 70 lines' sizes server/vm/l.c
file server/vm/m.c "$head"'int\nf(void)\n{\n\treturn 1;\n}\n'
passes 'a clean file' sizes server/vm/m.c

proto='service S {\n rpc A(B) returns (stream C) {\n  option (id) = 1;'
file p.proto "$proto"' option (role) = "user";\n }\n}\n'
passes 'a method with id and role' awk -f "$dev/methods.awk" p.proto
file p.proto "$proto"'\n }\n}\n'
finds 'a method without a role' awk -f "$dev/methods.awk" p.proto
