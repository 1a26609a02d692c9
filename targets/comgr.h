/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes comgr's header from either of its two places. Versions later than Debian 12's warn about
 * the old place.
 */
#ifndef TARGETS_COMGR_H
#define TARGETS_COMGR_H

#if __has_include(<amd_comgr/amd_comgr.h>)
#    include <amd_comgr/amd_comgr.h>
#else
#    include <amd_comgr.h>
#endif

#endif
