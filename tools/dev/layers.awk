# SPDX-License-Identifier: Apache-2.0
# Fails when a file includes a room, a header or a guarded system library that
# its row of layers.txt does not grant, or when it has no row.
#   awk -f layers.awk layers.txt FILE...

function complain(what) {
	print FILENAME ":" FNR ": " what
	bad = 1
}

# The row of a file: the longest key that its path starts with.
function row_of(path,    k, best) {
	best = ""
	for (k in row)
		if (index(path, k) == 1 && length(k) > length(best))
			best = k
	return best
}

FNR == NR {
	sub(/#.*/, "")
	if (/^guarded:/) {
		sub(/^guarded:/, "")
		nguard = split($0, guard, " ")
	} else if (/:/) {
		split($0, kv, ":")
		gsub(/[ \t]/, "", kv[1])
		row[kv[1]] = " " kv[2] " "
		gsub(/[ \t]+/, " ", row[kv[1]])
	}
	next
}

FNR == 1 {
	key = row_of(FILENAME)
	if (key == "")
		complain("no row in tools/dev/layers.txt")
	may = row[key]
	n = split(FILENAME, path, "/")
	own = n > 2 ? path[2] : ""
	anything = index(may, " * ")
}

/^#[ \t]*include "/ && !anything && key != "" {
	inc = $0
	sub(/^[^"]*"/, "", inc)
	sub(/".*/, "", inc)
	room = inc
	if (room ~ /^sluice\/v1\// || room == "methods.list.h")
		room = "proto"
	else if (!sub(/\/.*/, "", room))
		room = index(may, " " inc " ") ? inc : own
	if (room == own && index(inc, "..") == 0)
		next
	if (index(may, " " room " ") || index(may, " " inc " "))
		next
	complain("may not include \"" inc "\"")
}

/^#[ \t]*include </ && !anything && key != "" {
	inc = $0
	sub(/^[^<]*</, "", inc)
	sub(/>.*/, "", inc)
	for (i = 1; i <= nguard; i++)
		if ((inc == guard[i] || index(inc, guard[i] "/") == 1) &&
		    !index(may, " <" guard[i] "> "))
			complain("may not include <" inc ">")
}

END { exit bad }
