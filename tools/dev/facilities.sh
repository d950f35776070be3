#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What this machine can do that the tests rest on: one "name yes|no" a line. Run
# as root it asks for the ordinary user too. .ci/run compares the answer with
# .ci/facilities.txt, so that a test that is left out for want of a facility
# cannot go unseen.
set -u
tmp=$(mktemp -d) || exit 1
chmod 755 "$tmp"
trap 'rm -rf "$tmp"' EXIT
mkdir -m 777 "$tmp/l" "$tmp/u" "$tmp/w" "$tmp/m"

# The commands must leave nothing behind: each runs in namespaces of its own.
say() { # name command...
	local name=$1
	shift
	if "$@" >/dev/null 2>&1 </dev/null; then
		echo "$name yes"
	else
		echo "$name no"
	fi
}

as_user() {
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=61234 --regid=61234 --clear-groups \
		    --no-new-privs "$@"
	else
		"$@"
	fi
}

cgroup_v1() { # controller: can we make a group under our own?
	local mnt own dir
	mnt=$(awk -v c="$1" '$3 == "cgroup" && ("," $4 ",") ~ "," c "," \
	    { print $2; exit }' /proc/mounts)
	own=$(awk -F: -v c="$1" '("," $2 ",") ~ "," c "," \
	    { print $3; exit }' /proc/self/cgroup)
	[ -n "$mnt" ] || return 1
	dir=$mnt$own/sluice-probe-$$
	[ -d "$mnt$own" ] || dir=$mnt/sluice-probe-$$
	mkdir "$dir" && rmdir "$dir"
}

overlay="mount -t overlay overlay \
-o lowerdir=$tmp/l,upperdir=$tmp/u,workdir=$tmp/w $tmp/m"

say user-namespaces as_user unshare -U -r true
say overlay-in-user-namespace as_user unshare -U -r -m sh -c "$overlay"
say tmpfs-in-user-namespace as_user unshare -U -r -m \
    mount -t tmpfs none "$tmp/m"
say proc-in-user-namespace as_user unshare -U -r -m -p -f \
    mount -t proc none "$tmp/m"
say network-namespace as_user unshare -U -r -n true
say seccomp grep -q '^Seccomp:' /proc/self/status
for c in memory pids cpu freezer; do
	say "cgroup-v1-$c-writable" cgroup_v1 $c
done
say cgroup-v2-memory sh -c \
    'cat /sys/fs/cgroup/cgroup.controllers \
        /sys/fs/cgroup/unified/cgroup.controllers | grep -qw memory'
say newuidmap command -v newuidmap
say bubblewrap command -v bwrap
say node node -e 0
say npm npm --version
say clang command -v clang
say grpc-c++ test -e /usr/include/grpcpp/grpcpp.h
