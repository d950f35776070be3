# SPDX-License-Identifier: Apache-2.0
# Makes methods.list.h from the .proto files: one line per rpc,
#   SLI_METHOD(id, Service, Name, client_streams, server_streams, role,
#       timeout_ms, request, response)
# role is the word after SLI_ROLE_; request and response are the middle of
# protobuf-c's names (sluice__v1__<request>__descriptor). An rpc without id or
# role is an error. It reads our own .proto files only, not every .proto.

function snake(s,    i, c, out, low) {
	out = ""
	low = 0
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c ~ /[A-Z]/) {
			if (low || (i > 1 && substr(s, i + 1, 1) ~ /[a-z]/))
				out = out "_"
			low = 0
		} else {
			low = 1
		}
		out = out tolower(c)
	}
	return out
}

function option(text, name,    re, v) {
	re = "option *\\(" name "\\) *= *[^;]*"
	if (!match(text, re))
		return ""
	v = substr(text, RSTART, RLENGTH)
	sub(/^[^=]*= */, "", v)
	gsub(/"/, "", v)
	return v
}

function fail(msg) {
	print FILENAME ": " msg > "/dev/stderr"
	bad = 1
	exit 1
}

function rpc(text,    head, name, req, rsp, cs, ss, id, role, ms) {
	head = text
	sub(/^ *rpc */, "", head)
	name = head
	sub(/ *\(.*/, "", name)
	sub(/^[^(]*\( */, "", head)
	req = head
	sub(/ *\).*/, "", req)
	rsp = head
	sub(/^[^)]*\) *returns *\( */, "", rsp)
	sub(/ *\).*/, "", rsp)
	cs = sub(/^stream +/, "", req)
	ss = sub(/^stream +/, "", rsp)
	id = option(text, "id")
	role = option(text, "role")
	ms = option(text, "timeout_ms")
	if (id == "" || role == "")
		fail(service "/" name " has no id or no role")
	if (id in seen)
		fail(service "/" name ": id " id " is taken")
	seen[id] = 1
	printf "SLI_METHOD(%d, %s, %s, %d, %d, %s, %d, %s, %s)\n", id,
	    service, name, cs, ss, toupper(role), ms, snake(req), snake(rsp)
}

BEGIN {
	print "/* Generated from proto/ by tools/dev/methods.awk. */"
}

{ sub(/\/\/.*/, "") }

/^service / { service = $2; next }
/^}/ { service = "" }

service != "" {
	text = text " " $0
	while (match(text, /rpc[^{;]*(\{[^}]*\}|;)/)) {
		one = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		rpc(one)
	}
}

END { exit bad }
