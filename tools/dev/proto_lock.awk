# SPDX-License-Identifier: Apache-2.0
# Prints every number that is on the wire: fields, enum values, method ids; one
# a line, in the order of the files. proto/lock.txt is its output; a test
# compares. Reads our own .proto files only, not every .proto.

function trim(s) {
	gsub(/^[ \t]+|[ \t]+$/, "", s)
	return s
}

# Name and number of "type name = 7".
function number(stmt,    v) {
	v = stmt
	sub(/^[^=]*= */, "", v)
	sub(/[^0-9].*/, "", v)
	sub(/ *=.*/, "", stmt)
	sub(/^.*[ \t]/, "", stmt)
	return stmt " = " v
}

function statement(stmt,    w) {
	split(stmt, w, /[ \t]+/)
	if (w[1] == "option" && kind[depth] == "rpc") {
		if (stmt ~ /\(id\)/) {
			sub(/^[^=]*= */, "", stmt)
			print "method " pkg "." name[depth - 1] "/" \
			    name[depth] " = " stmt
		}
	} else if (kind[depth] == "enum") {
		print "enum " pkg "." name[depth] "." number(stmt)
	} else if (kind[depth] == "message" || kind[depth] == "oneof") {
		if (w[1] != "reserved" && w[1] != "option")
			print pkg "." name[depth] "." number(stmt)
	} else if (w[1] == "package") {
		pkg = w[2]
	}
}

function opens(stmt,    w) {
	split(stmt, w, /[ \t(]+/)
	depth++
	kind[depth] = w[1]
	# Fields of a oneof are the message's.
	name[depth] = w[1] == "oneof" ? name[depth - 1] : w[2]
}

function flush_text(    c, stmt) {
	while (match(text, /[{};]/)) {
		stmt = trim(substr(text, 1, RSTART - 1))
		c = substr(text, RSTART, 1)
		text = substr(text, RSTART + 1)
		if (c == "{")
			opens(stmt)
		else if (stmt != "")
			statement(stmt)
		if (c == "}")
			depth--
	}
}

FNR == 1 { text = ""; depth = 0 }
{
	sub(/\/\/.*/, "")
	text = text " " $0
	flush_text()
}
