# SPDX-License-Identifier: Apache-2.0
# Fails for a C file over 500 lines, a function over 70, a file that does not
# start with its licence and what it is for.
#   awk -f sizes.awk FILE...

function complain(line, what) {
	print file ":" line ": " what
	bad = 1
}

function finish() {
	if (file != "" && lines > 500)
		complain(lines, "longer than 500 lines; split it by idea")
}

FNR == 1 {
	finish()
	file = FILENAME
	# proto files and C files differ in how a comment starts
	if ($0 !~ /SPDX-License-Identifier: Apache-2\.0/)
		complain(1, "first line is not the SPDX licence line")
}
FNR == 2 && !/^(\/\*|\/\/)/ { complain(2, "does not say what it is for") }

{ lines = FNR }
/^\{/ { start = FNR }
/^[a-z_]+[a-z0-9_]*\(/ { fn = $0; sub(/\(.*/, "", fn) }
/^\}/ {
	if (start && FNR - start > 70 && fn != "main")
		complain(start, fn "() has " FNR - start - 1 " lines")
	start = 0
}

END { finish(); exit bad }
