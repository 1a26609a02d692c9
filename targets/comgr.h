/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes comgr's header, which is in one of two folders. Versions after Debian 12's warn if it is
 * included from the old folder.
 */
#ifndef TARGETS_COMGR_H
#define TARGETS_COMGR_H

#if __has_include(<amd_comgr/amd_comgr.h>)
#    include <amd_comgr/amd_comgr.h>
#else
#    include <amd_comgr.h>
#endif

#endif
