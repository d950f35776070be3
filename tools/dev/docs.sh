#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Documents that follow from the code.
#   docs.sh          write docs/LIMITS.md and the generated tables
#   docs.sh check    say what differs, and what the documents lack
# A generated table stands between the lines
#   <!-- begin NAME (generated) --> and <!-- end NAME -->.
set -u
cd "$(dirname "$0")/../.." || exit 1
mode=${1:-write}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
bad=0

limits() {
	cat <<'EOT'
# Limits

Generated from `common/base/limits.def` by `make docs`; do not edit.

Everything that a peer, a guest or an agent can grow has its maximum here. A
limit pushes back or refuses one thing by name; it never ends a session. An
error that comes of a limit names the key, its scope, what was used, what was
asked for, the limit, and the companion keys.

Sizes are written `64KiB`, `4MiB`, `1GiB`; durations `500ms`, `30s`, `5m`,
`2h`; counts and percents as plain numbers. A *companion* may not be lower than
the limit it belongs to: to raise the limit past it, raise it too. A group of
values is checked whole, and all violations come in one answer.
EOT
	gcc -E -P -Icommon -x c - <<'EOT' | awk -f tools/dev/limits.awk
#define SLI_KIB 1024
#define SLI_MIB 1048576
#define SLI_GIB 1073741824
#define SLI_TIB 1099511627776
#define SLI_LIMIT(key, id, unit, def, min, max, scope, comp, doc) \
	LIMIT | key | unit | def | min | max | scope | comp | doc
#include "base/limits.def"
EOT
}

errors() {
	echo '| number | name | class | meaning |'
	echo '|---:|---|---|---|'
	gcc -E -P -Icommon -x c - <<'EOT' | sed 's/^E |/|/; s/"//g'
#define SLI_ERR(num, name, cls, text) E | num | `name` | cls | text |
#include "base/err.list.h"
EOT
}

methods() {
	local f files=()
	for f in proto/sluice/v1/*.proto; do
		[ "${f##*/}" = options.proto ] || files+=("$f")
	done
	echo '| id | method | kind | least role | deadline |'
	echo '|---:|---|---|---|---|'
	awk -f tools/dev/methods.awk "${files[@]}" | grep '^SLI_METHOD' |
	    sed 's/SLI_METHOD(//; s/)$//' | awk -F', ' '{
		kind = $4 ? ($5 ? "bidi" : "client stream") \
		    : ($5 ? "server stream" : "unary")
		printf "| %s | `%s/%s` | %s | %s | %s |\n", $1, $2, $3, kind,
		    tolower($6), $7 ? $7 / 1000 " s" : "none"
	    }' | sort -t'|' -k2,2n
}

# Put the lines of stdin between the markers of a file.
splice() { # file name
	awk -v name="$2" -v with="$tmp/part" '
	    $0 == "<!-- end " name " -->" { skip = 0 }
	    !skip { print }
	    $0 == "<!-- begin " name " (generated) -->" {
		skip = 1
		while ((getline line < with) > 0)
			print line
	    }' "$1"
}

section() { # file name generator
	if [ ! -e "$1" ]; then
		return 0
	fi
	if ! grep -qxF "<!-- begin $2 (generated) -->" "$1"; then
		echo "$1: no section \"$2\""
		bad=1
		return 0
	fi
	"$3" >"$tmp/part"
	splice "$1" "$2" >"$tmp/new"
	settle "$1"
}

# $tmp/new is what the file should be.
settle() {
	cmp -s "$tmp/new" "$1" && return 0
	if [ "$mode" = check ]; then
		echo "$1: not as generated; run make docs"
		bad=1
	else
		mkdir -p "${1%/*}"
		cp "$tmp/new" "$1"
		echo "wrote $1"
	fi
}

limits >"$tmp/new"
settle docs/LIMITS.md
section docs/PROTOCOL.md errors errors
section docs/PROTOCOL.md methods methods
[ "$mode" = check ] || exit $bad

# Links between documents lead somewhere.
for f in README.md docs/*.md docs/*/*.md; do
	[ -e "$f" ] || continue
	for l in $(grep -oE '\]\([^)#: ]+' "$f" | sed 's/^](//'); do
		[ -e "${f%/*}/$l" ] || [ -e "$l" ] && continue
		echo "$f: link to $l leads nowhere"
		bad=1
	done
done

# Every machine with a table of legal moves has its page.
for f in $(grep -rlE '^static const .*\blegal\[' common server client \
    2>/dev/null); do
	grep -qsF "$f" docs/STATES.md || {
		echo "$f: its state machine is not in docs/STATES.md" \
		    "(the section must name the file)"
		bad=1
	}
done

# Every test directory and every target people type is explained.
if [ -e docs/TESTING.md ]; then
	for t in test test-long test-agents lint fuzz bench mutants demo; do
		grep -q "make $t\b" docs/TESTING.md || {
			echo "docs/TESTING.md: make $t is not there"
			bad=1
		}
	done
fi

# Every configuration keyword is in its manual, and no other.
keys=server/main/config.keys.h
man=docs/man/sluiced.conf.5
if [ -e $keys ] && [ -e $man ]; then
	diff <(grep -oE '^SLUICED_KEY\([a-z_]+' $keys | sed 's/.*(//' | sort) \
	    <(grep -oE '^\.It Ic [a-z_]+' $man | sed 's/.* //' | sort) || {
		echo "$man: not the keywords of $keys"
		bad=1
	}
fi

# Exported names and declared names are the same.
map=client/libsluice.map
if [ -e $map ]; then
	diff <(grep -oE '\bsluice_[a-z0-9_]+;' $map | tr -d ';' | sort -u) \
	    <(cat client/include/*.h client/include/*/*.h 2>/dev/null |
	        sed 's,/\*.*\*/,,' | grep -v '^#' |
	        grep -oE '\bsluice_[a-z0-9_]+\(' | grep -v '_fn($' |
	        tr -d '(' | sort -u) || {
		echo "$map: not the functions of the public header"
		bad=1
	}
fi

# The manuals are well formed.
if command -v mandoc >/dev/null; then
	for f in docs/man/*.[1-8]; do
		[ -e "$f" ] || continue
		mandoc -T lint -W warning "$f" || bad=1
	done
else
	echo "mandoc is not installed (make deps)"
	bad=1
fi
exit $bad
