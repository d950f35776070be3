# SPDX-License-Identifier: Apache-2.0
# Finds calls of functions that the house does not use (docs/STYLE.md). A line
# may keep one with a reason: /* banned-ok: why */.
#   awk -f banned.awk FILE...

function ban(names, why,    i, n, w) {
	n = split(names, w, " ")
	for (i = 1; i <= n; i++)
		reason[w[i]] = why
}

# Rooms whose programs stand by themselves, without common/base.
function alone(f) {
	return f ~ /^(tools|tests)\// || f ~ /^server\/guest\/pid1/
}

function program(f) {
	return alone(f) || f ~ /^server\/(spawner|opener|guest|main)\//
}

function exempt(f, fn) {
	if (f == "common/base/mem.c" && class[fn] == "heap")
		return 1
	if (class[fn] == "heap" || class[fn] == "parse")
		return alone(f)
	if (class[fn] == "process")
		return program(f)
	return 0
}

function classify(names, c,    i, n, w) {
	n = split(names, w, " ")
	for (i = 1; i <= n; i++)
		class[w[i]] = c
}

BEGIN {
	ban("strcpy strcat strncpy strncat stpcpy gets sprintf vsprintf",
	    "use base/str.h")
	ban("strtok atoi atol atoll atof", "use base/str.h")
	ban("strtol strtoul strtoll strtoull strtod strtof sscanf fscanf scanf",
	    "use base/str.h")
	ban("alloca strdupa", "stack is not bounded by an input")
	ban("fork vfork system popen exit _exit daemon", "not in this program")
	ban("tmpnam mktemp tempnam", "use mkdtemp or O_TMPFILE")
	ban("signal", "use signalfd or sigaction")
	ban("sleep usleep nanosleep", "wait for an event")
	ban("rand srand random drand48", "use crypto/random.h")
	ban("gmtime localtime ctime asctime strerror readdir_r getpwnam " \
	    "getpwuid getgrnam", "use the _r form")
	ban("malloc calloc realloc free strdup strndup asprintf vasprintf",
	    "use base/mem.h")
	classify("malloc calloc realloc free strdup strndup asprintf vasprintf",
	    "heap")
	classify("strtol strtoul strtoll strtoull strtod strtof", "parse")
	classify("fork vfork exit _exit", "process")
}

FNR == 1 { comment = 0 }

/banned-ok: [a-z]/ { next }

{
	line = $0
	gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
	gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
	if (comment) {
		if (!sub(/^.*\*\//, "", line))
			next
		comment = 0
	}
	if (sub(/\/\*.*/, "", line))
		comment = 1
	while (match(line, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(/)) {
		fn = substr(line, RSTART, RLENGTH - 1)
		before = RSTART > 1 ? substr(line, RSTART - 1, 1) : ""
		member = RSTART > 2 && (before == "." || \
		    substr(line, RSTART - 2, 2) == "->")
		line = substr(line, RSTART + RLENGTH)
		gsub(/[ \t]/, "", fn)
		if ((fn in reason) && !member && !exempt(FILENAME, fn)) {
			print FILENAME ":" FNR ": " fn "(): " reason[fn]
			bad = 1
		}
	}
}

END { exit bad }
