/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HIPSIM_DECODE_FIELDS_H
#define HIPSIM_DECODE_FIELDS_H

#include "row.h"

/*
 * Fills in encoding, form, operands and modifiers of an instruction with known row, size and raw
 * dwords. False if the dwords do not fit the row.
 */
bool decode_fields(struct inst *in);

#endif
