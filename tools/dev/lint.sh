#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make lint: every check of taste and layering, the fast ones first. All checks
# run; the end says which failed. A missing tool is a failure by its name.
#   lint.sh [CHECK...]     only these checks
set -u
cd "$(dirname "$0")/../.." || exit 1
V=debug
JOBS=${JOBS:-$(nproc)}
CACHE=build/lint
mkdir -p "$CACHE"
mapfile -t FILES < <({
	git ls-files -co --exclude-standard 2>/dev/null ||
	    find . -type f -not -path './build/*' -not -path './.git/*' |
	    sed 's,^\./,,'
} | sort -u)

# The files that match one of the patterns (* crosses slashes).
src() {
	local f p
	for f in "${FILES[@]}"; do
		[ -f "$f" ] || continue
		for p; do
			# shellcheck disable=SC2053
			[[ $f == $p ]] && echo "$f" && break
		done
	done
}
mapfile -t C < <(src '*.c' '*.h' '*.def')
mapfile -t CODE < <(src 'common/*.c' 'server/*.c' 'client/*.c' 'tools/*.c')
mapfile -t SH < <(src '*.sh' 'tests/*' '.ci/*' | while read -r f; do
	head -1 "$f" | grep -qE '^#!.*\b(ba)?sh$' && echo "$f"
done | sort -u)
CFLAGS=$(make -s V=$V print-cflags)

tool() { command -v "$1" >/dev/null || {
	echo "$1 is not installed (make deps)"
	return 1
}; }

check_format() {
	tool clang-format || return 1
	clang-format --version | grep -q 'version 14\.' ||
	    echo "note: the format is clang-format 14's"
	printf '%s\n' "${C[@]}" |
	    xargs -P "$JOBS" -n 20 clang-format --dry-run -Werror 2>&1 |
	    grep -E '(error|warning):' | sort
	return "$((PIPESTATUS[1] != 0))"
}

check_sizes() {
	local p
	mapfile -t p < <(src '*.proto')
	awk -f tools/dev/sizes.awk "${C[@]}" "${p[@]}"
}

# Scripts carry the licence within their first three lines.
check_spdx() {
	local f bad=0
	for f in "${SH[@]}" Makefile $(src '*.awk' '*.map' '.clang-tidy'); do
		head -3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' ||
		    { echo "$f: no SPDX line"; bad=1; }
	done
	return $bad
}

check_banned() { awk -f tools/dev/banned.awk "${C[@]}"; }

check_layers() { awk -f tools/dev/layers.awk tools/dev/layers.txt "${C[@]}"; }

# Every header compiles alone; the public one as C99, C17 and C++ too. Lists
# that are included several times have no guard and are left out.
check_headers() {
	local h bad=0 warn='-Wall -Wextra -Wpedantic -Werror -fsyntax-only'
	local pub
	make -s V=$V build/$V/proto/.stamp || return 1
	tool g++ || bad=1
	# shellcheck disable=SC2086
	for h in $(src 'common/*.h' 'server/*.h' 'client/*.h' 'tools/*.h'); do
		grep -q '^#ifndef .*_H$' "$h" || continue
		alone "$h" | gcc $CFLAGS $warn -x c - || bad=1
	done
	mapfile -t pub < <(src 'client/include/*.h')
	# shellcheck disable=SC2086
	for h in "${pub[@]}"; do
		{
			alone "$h" | gcc -std=c99 $warn -Iclient/include -x c - &&
			    alone "$h" |
			    gcc -std=c17 $warn -Iclient/include -x c - &&
			    alone "$h" |
			    g++ -std=c++11 $warn -Iclient/include -x c++ -
		} || bad=1
	done
	return $bad
}

alone() { printf '#include "%s"\ntypedef int not_empty;\n' "$PWD/$1"; }

# gcc's warnings stop the build; clang's are asked for here.
check_clang() {
	local warn
	tool clang || return 1
	warn=$(make -s V=$V CC=clang print-warnings)
	make -s V=$V build/$V/proto/.stamp || return 1
	# shellcheck disable=SC2086
	printf '%s\n' "${CODE[@]}" |
	    xargs -P "$JOBS" -n 8 clang $CFLAGS $warn -Werror -fsyntax-only
}

check_docs() { tools/dev/docs.sh check; }

check_codespell() {
	tool codespell || return 1
	src '*' | grep -vE '\.(bin|hex|raw)$|/corpus/|/golden/' |
	    xargs codespell -L inflight,nd,falsy,upto 
}

check_shellcheck() {
	tool shellcheck || return 1
	[ ${#SH[@]} -eq 0 ] || shellcheck -S warning "${SH[@]}"
}

# A file whose text, headers and checks have not changed is not looked at again.
tidy_one() {
	local f=$1 key out only=
	# Programs and phases with one thread may use what is not safe among
	# several.
	case $f in
	tools/* | server/main/* | server/guest/* | server/spawner/* | server/opener/*)
		only=--checks=-concurrency-mt-unsafe ;;
	esac
	# shellcheck disable=SC2086
	key=$({
		gcc $CFLAGS -E "$f"
		cat .clang-tidy "$f"
	} 2>&1 | sha1sum)
	key=$CACHE/tidy-${key%% *}
	[ -e "$key" ] && return 0
	# shellcheck disable=SC2086
	if out=$(clang-tidy --quiet $only "$f" -- $CFLAGS 2>/dev/null); then
		: >"$key"
		return 0
	fi
	grep -E '(error|warning):' <<<"$out" | sed "s,^$PWD/,,"
	return 1
}
export -f tidy_one
export CFLAGS CACHE

# A line may silence a check with its name and a reason:
#   /* NOLINT(check-name): why */
check_tidy() {
	local bad=0
	tool clang-tidy || return 1
	make -s V=$V build/$V/proto/.stamp || return 1
	grep -nE 'NOLINT' "${C[@]}" | grep -vE 'NOLINT[A-Z]*\([a-z0-9.-]+\): [a-z]' |
	    sed 's/$/   <- name the check and say why/' | grep . && bad=1
	printf '%s\n' "${CODE[@]}" |
	    xargs -P "$JOBS" -n 1 bash -c 'tidy_one "$1"' tidy || bad=1
	return $bad
}

failed=
[ $# -gt 0 ] || set -- format sizes spdx banned layers headers clang docs codespell \
    shellcheck tidy
for c; do
	t0=$(date +%s%N)
	if check_"$c"; then r=ok; else
		r=FAILED
		failed="$failed $c"
	fi
	printf 'lint %-10s %-6s %6.1f s\n' "$c" "$r" \
	    "$((($(date +%s%N) - t0) / 100000000))e-1"
done
[ -z "$failed" ] || {
	echo "lint failed:$failed"
	exit 1
}
echo "lint passed"
