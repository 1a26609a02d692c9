# SPDX-License-Identifier: Apache-2.0
# The page as C: a string for each line.
BEGIN { print "extern const char *const report_page[];\nconst char *const report_page[] = {" }
{ gsub(/\\/, "&&"); gsub(/"/, "\\\""); printf "    \"%s\",\n", $0 }
END { print "    0,\n};" }
