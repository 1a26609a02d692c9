/* SPDX-License-Identifier: Apache-2.0 */
/* A file that the descriptions here name; it is never compiled. */
