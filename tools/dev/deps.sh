#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the build and the tests need from the distribution.
#   deps.sh check          0 when building and testing is possible; says nothing
#   deps.sh install [all]  apt-get install it (all: lint, fuzzing, benchmarks
#                          too); where there is no apt: lists it and stops
#   deps.sh userns         says how to allow user namespaces when they are not
set -u

BUILD='gcc make libc6-dev linux-libc-dev libnng-dev libprotobuf-c-dev
protobuf-c-compiler libsqlite3-dev libsodium-dev libcmocka-dev libjansson-dev
libseccomp-dev libcap-dev musl-tools procps util-linux uidmap'
ALL='clang clang-format clang-tidy libclang-rt-14-dev codespell shellcheck
bubblewrap g++ libgrpc++-dev libprotobuf-dev protobuf-compiler
protobuf-compiler-grpc strace sqlite3 git xxd mandoc'

have_all() {
	local c
	for c in gcc musl-gcc protoc-c awk setpriv unshare pgrep; do
		command -v "$c" >/dev/null || return 1
	done
	gcc -E -x c - >/dev/null 2>&1 <<'EOC' || return 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <nng/nng.h>
#include <protobuf-c/protobuf-c.h>
#include <seccomp.h>
#include <sodium.h>
#include <sqlite3.h>
#include <sys/capability.h>
EOC
}

install() {
	local list=$BUILD run=
	[ "${1:-}" = all ] && list="$BUILD $ALL"
	# shellcheck disable=SC2086
	if ! command -v apt-get >/dev/null; then
		echo "This is not a Debian system. Sluice needs the equivalents of:"
		echo $list | fold -s -w 76 | sed 's/^/  /'
		exit 1
	fi
	# shellcheck disable=SC2086
	if dpkg-query -W -f '${db:Status-Status}\n' $list 2>/dev/null |
	    awk '$1 != "installed" { bad = 1 } END { exit bad || NR < n }' \
	        n="$(wc -w <<<"$list")"; then
		return 0
	fi
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null || {
			echo "Run as root: apt-get install $(xargs <<<"$list")"
			exit 1
		}
		run=sudo
	fi
	# shellcheck disable=SC2086
	$run env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
	    --no-install-recommends $list >/dev/null || {
		$run apt-get update -q >/dev/null &&
		    $run env DEBIAN_FRONTEND=noninteractive apt-get install \
		        -y -q --no-install-recommends $list >/dev/null
	} || {
		echo "apt-get could not install:" $list
		exit 1
	}
}

userns() {
	unshare -U -r true 2>/dev/null && return 0
	local k=/proc/sys/kernel
	echo "This kernel refuses user namespaces; VMs need them. To allow them:"
	if [ "$(cat $k/unprivileged_userns_clone 2>/dev/null)" = 0 ]; then
		echo "  sudo sysctl -w kernel.unprivileged_userns_clone=1"
	elif [ "$(cat $k/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ]
	then
		echo "  sudo sysctl -w" \
		    "kernel.apparmor_restrict_unprivileged_userns=0"
	else
		echo "  sudo sysctl -w user.max_user_namespaces=15000"
	fi
	return 1
}

case ${1:-} in
check) have_all ;;
install) install "${2:-}" ;;
userns) userns ;;
*)
	echo "usage: deps.sh check | install [all] | userns" >&2
	exit 2
	;;
esac
