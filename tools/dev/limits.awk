# SPDX-License-Identifier: Apache-2.0
# Turns preprocessed limits.def into the tables of docs/LIMITS.md, one a group
# of keys. Values are shown in the largest whole unit.

function trim(s) {
	gsub(/^[ \t]+|[ \t]+$/, "", s)
	return s
}

# A product of plain numbers, as the macros leave it.
function value(s,    n, f, v, i) {
	n = split(s, f, /[ *()]+/)
	v = 1
	for (i = 1; i <= n; i++)
		if (f[i] != "")
			v *= f[i]
	return v
}

function shown(v, unit) {
	if (unit ~ /^BYTES/) {
		if (v >= 1073741824 && v % 1073741824 == 0)
			v = v / 1073741824 "GiB"
		else if (v >= 1048576 && v % 1048576 == 0)
			v = v / 1048576 "MiB"
		else if (v >= 1024 && v % 1024 == 0)
			v = v / 1024 "KiB"
		return unit == "BYTES_PER_S" ? v " /s" : v ""
	}
	if (unit == "SECONDS") {
		v *= 1000
		unit = "MS"
	}
	if (unit == "MS") {
		if (v >= 3600000 && v % 3600000 == 0)
			return v / 3600000 "h"
		if (v >= 60000 && v % 60000 == 0)
			return v / 60000 "m"
		if (v >= 1000 && v % 1000 == 0)
			return v / 1000 "s"
		return v "ms"
	}
	return unit == "PERCENT" ? v " %" : v ""
}

function text(s) {
	s = trim(s)
	gsub(/" *"/, "", s)
	gsub(/"/, "", s)
	return s
}

BEGIN {
	title["wire"] = "Wire"
	title["host"] = title["vm"] = "VMs"
	title["acp"] = "ACP sessions"
	title["store"] = "History"
	title["drain_s"] = "Server"
}

# The preprocessor puts all on one line; documents have no " LIMIT ".
{ all = all " " $0 }
END {
	n = split(all, rec, / LIMIT \| /)
	for (i = 2; i <= n; i++) {
		split(rec[i], f, / \| /)
		key = text(f[1])
		unit = trim(f[2])
		group = key
		sub(/\..*/, "", group)
		if (title[group] != now) {
			now = title[group]
			printf "\n## %s\n\n", now
			print "| key | default | bounds | per | companions |" \
			    " what it bounds |"
			print "|---|---|---|---|---|---|"
		}
		comp = text(f[7])
		gsub(/[a-z_.0-9]+/, "`&`", comp)
		lo = shown(value(f[4]), unit)
		hi = shown(value(f[5]), unit)
		printf "| `%s` | %s | %s | %s | %s | %s |\n", key,
		    shown(value(f[3]), unit), lo == hi ? "fixed" : lo " to " hi,
		    text(f[6]), comp, text(f[8])
	}
}
