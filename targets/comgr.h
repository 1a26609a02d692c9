/* SPDX-License-Identifier: Apache-2.0
 *
 * comgr's header: versions later than Debian 12's warn of the place that it had.
 */
#ifndef TARGETS_COMGR_H
#define TARGETS_COMGR_H

#if __has_include(<amd_comgr/amd_comgr.h>)
#    include <amd_comgr/amd_comgr.h>
#else
#    include <amd_comgr.h>
#endif

#endif
