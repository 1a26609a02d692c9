# SPDX-License-Identifier: Apache-2.0
# Turns hip_api.def into the linker's version script: one node per version, each above the one
# before it; hipsim's own functions are in the first.
/^HIP_API\(/ {
    split($0, part, /[(), ]+/)
    if (!(part[3] in names))
        order[++versions] = part[3]
    names[part[3]] = names[part[3]] "    " part[2] ";\n"
}
END {
    for (i = 1; i <= versions; i++) {
        printf "%s {\n  global:\n%s", order[i], names[order[i]]
        if (i == 1)
            print "    hipsim_configure;\n    hipsim_set_report;\n    hipsim_last_launch;\n" \
                  "    hipsim_device_time;\n    hipsim_fail_call;\n" \
                  "    hipsim_call_count;\n    hipsim_findings;\n    hipsim_live_bytes;\n    hipsim_time_enable;\n" \
                  "    hipsim_time_last;\n    hipsim_time_format;\n    hipsim_stall_name;\n  local:\n    *;"
        print (i == 1) ? "};" : "} " order[i - 1] ";"
    }
}
