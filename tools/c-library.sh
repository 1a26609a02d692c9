# SPDX-License-Identifier: Apache-2.0
# Sets c_library to the names of the C library's own libraries, which every system has, as alternatives of an extended
# regular expression. tools/bring-libraries and tools/wheel-tag read this file.
c_library='libc|libm|libdl|libpthread|librt'
