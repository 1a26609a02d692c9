/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests the verifier: functions break each rule once.
 */
#include "tests/ir/fixture.h"

#define CONSTANTS                                                         \
    "%0 = const_int {value=1} : i32\n%1 = const_float {bits=1} : f32\n"   \
    "%2 = const_int {value=1} : i1\n%3 = const_int {value=1} : i64\n"     \
    "%4 = make_rsrc %3, %0 : rsrc\n%5 = splat %1 : vec<4, f32>\n"         \
    "%6 = splat %0 : vec<1, i32>\n%7 = splat %1 : tile<32x32, f32, #0>\n" \
    "%8 = splat %1 : vec<1, f32>\n"

static const struct {
    const char *body, *finding;
} broken[] = {
    {"%9 = add %0, %1 : i32", "operand 1 has another type than operand 0"},
    {"%9 = add %0 : i32", "takes 2 operands, has 1"},
    {"%9 = add %0, %0 : f32", "result type does not follow from operand 0"},
    {"%9 = cmp_lt %1, %1 : f32", "result type does not follow from operand 0"},
    {"%9 = and %1, %1 : f32", "operand 0 is not an integer"},
    {"%9 = exp2 %0 : i32", "operand 0 is not f32 or f16"},
    {"%9 = dot2 %0, %0, %0 : i32", "operand 2 is not f32"},
    {"%9 = dot2 %6, %6, %1 : f32", "operands differ in shape"},
    {"%10 = convert %1 : f16\n%9 = unit_pair %10, %10 : i32", "operand 0 is not f32"},
    {"%9 = unit_pair %1, %1 : f32", "result is not i32"},
    {"%9 = add %4, %4 : rsrc", "operand 0 is not a number"},
    {"%9 = select %0, %1, %1 : f32", "operand 0 is not i1"},
    {"%10 = cmp_eq %6, %6 : vec<1, i1>\n%9 = select %10, %1, %1 : f32",
     "condition is not of the values' shape"},
    {"%9 = select %2, %0, %1 : i32", "values have different types"},
    {"%9 = convert %5 : f32", "result has another shape"},
    {"%9 = zext %3 : i32", "is no extension"},
    {"%9 = bitcast %5 : vec<4, f16>", "128 bits become 64"},
    {"%10 = convert %7 : tile<32x32, i8, #0>\n%9 = bitcast %10 : tile<32x8, i32, #1>",
     "a lane has no neighbours to join"},
    {"%10 = convert %7 : tile<32x32, i8, #0>\n%9 = bitcast %10 : tile<32x32, i32, #0>",
     "result has another shape"},
    {"%10 = convert %7 : tile<32x32, i8, #0>\n%9 = bitcast %10 : tile<32x16, i16, #2>",
     "elements have no 32 bits"},
    {"%10 = const_int {value=1} : tile<32x32, i8, #9>\n%9 = bitcast %10 : tile<32x8, i32, #1>",
     "layouts disagree"},
    {"%9 = const_int {value=1} : f32", "result is no integer"},
    {"%9 = const_float {bits=1} : i32", "result is no float"},
    {"%9 = arg {index=2} : i32", "no such argument"},
    {"%9 = arg {index=0} : i32", "argument has another dtype"},
    {"%9 = block_id {dim=3} : i32", "no such dimension"},
    {"%9 = lds_base {offset=5000} : i32", "beyond the function's LDS"},
    {"%9 = splat %5 : tile<32x32, f32, #0>", "operand 0 is not a scalar"},
    {"%9 = splat %1 : tile<32x64, f32, #0>", "layout does not cover 32x64"},
    {"%9 = splat %1 : tile<24x32, f32, #0>", "rows and columns are powers of two"},
    {"%9 = row_index : tile<32x32, f32, #0>", "result is not i32"},
    {"%9 = row_max %7 : tile<1x32, f32, #3>", "result is not 32x1"},
    {"%9 = col_sum %7 : tile<1x32, f32, #0>", "layout does not cover 1x32"},
    {"%9 = col_max %7 : tile<1x32, f32, #4>",
     "layout is not the operand's without the reduced axis"},
    {"%10 = splat %1 : tile<1x32, f32, #4>\n%9 = broadcast %10 : tile<32x32, f32, #0>",
     "layouts differ in more than the repeated axis"},
    {"%10 = splat %1 : tile<1x32, f32, #3>\n%9 = broadcast %10 : tile<32x16, f32, #2>",
     "1x32 does not repeat to 32x16"},
    {"%9 = mma %7, %7, %7 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #0>",
     "dtypes are not those of mfma_f32_32x32x8_bf16_1k"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%9 = mma %10, %7, %7 "
     "{instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #0>",
     "32x8 times 32x32 is not 32x32"},
    {"%9 = mma %7, %7, %7 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #0>",
     "operands are not laid out for mfma_f32_32x32x8_bf16_1k"},
    {"%9 = stack %7, %7 : tile<32x32, f32, #0>",
     "result is not the registers of operand 0 and then those of operand 1"},
    {"%9 = relayout %7 : tile<32x32, f16, #0>", "result differs in more than its layout"},
    {"%9 = transpose %7 : tile<32x32, f32, #0>",
     "result is not the operand with rows and columns exchanged"},
    {"%9 = join_blocks %7 : tile<32x32, f16, #0>",
     "operand and result are not the same blocks, joined and split"},
    {"%9 = col_flip %7 {cols=32} : tile<32x32, f32, #0>", "cols is not 1..31"},
    {"%9 = col_flip %7 {cols=3} : tile<32x32, f32, #0>",
     "no bit of the register or of the lane stands for 3 columns alone"},
    {"%9 = split_blocks %7 : tile<32x32, f32, #9>", "result does not hold the operand's registers"},
    {"%9 = tile_load %4, %3, %0, %0 : tile<32x32, f32, #0>", "operand 1 is not a scalar i32"},
    {"%10 = splat %3 : tile<32x1, i64, #5>\n"
     "%9 = tile_gather %3, %10, %0 {apart=0} : tile<32x32, f32, #0>",
     "row_addr is not laid out like the tile's rows"},
    {"%10 = splat %3 : tile<1x32, i64, #3>\n"
     "%9 = tile_gather %3, %10, %0 {apart=0} : tile<32x32, f32, #0>",
     "row_addr is not an i64 of each row"},
    {"%10 = splat %3 : tile<32x1, i64, #5>\n"
     "%9 = tile_fetch %4, %10 {offset=0} : tile<32x32, f32, #0>",
     "row_addr is not an i32 of each row"},
    {"%9 = tile_lds_load %0 {layout=#10, columns=16} : tile<32x32, f32, #0>",
     "address map has no padding of 16 bytes"},
    {"%9 = tile_lds_load %0 {layout=#11, columns=32} : tile<32x32, f32, #0>",
     "32 columns are not some of 32, of 16 bytes"},
    {"%9 = tile_lds_load %0 {layout=#11, columns=18} : tile<32x32, f32, #0>",
     "18 columns are not some of 32, of 16 bytes"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%11 = convert %10 : tile<32x8, bf16, #1>\n"
     "%12 = transpose %11 : tile<8x32, bf16, #12>\n"
     "%9 = mma %11, %12, %7 {instr=\"mfma_f32_32x32x8_bf16_1k\", k=4} : tile<32x32, f32, #0>",
     "k 4 is not that of whole instructions"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%11 = convert %10 : tile<32x8, bf16, #1>\n"
     "%12 = transpose %11 : tile<8x32, bf16, #12>\n"
     "%9 = mma_halves %11, %12, %7 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #0>",
     "mfma_f32_32x32x8_bf16_1k has not 16 rows"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%11 = convert %10 : tile<32x8, bf16, #1>\n"
     "%12 = transpose %11 : tile<8x32, bf16, #12>\n"
     "%9 = mma_halves %11, %12, %7 {instr=\"mfma_f32_16x16x16_bf16_1k\"} : tile<32x32, f32, #0>",
     "32x8 times 8x32 is not eight rows of 32x32"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%11 = convert %10 : tile<32x8, bf16, #1>\n"
     "%9 = col_fold_dot %11, %10 : tile<32x8, f32, #1>",
     "registers are not all of them rows"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%9 = col_fold_top %10 : tile<32x8, i32, #1>",
     "operand 0 is no 16-bit float"},
    {"%9 = tile_lds_load %0 {layout=#11, first=16} : tile<32x32, f32, #0>",
     "first column 16 is no multiple of 32"},
    {"%9 = tile_lds_load %0 {layout=#11, first=32} : tile<32x32, f32, #0>",
     "address map lacks column 32"},
    {"%9 = tile_lds_load %0 {layout=#0} : tile<32x32, f32, #0>",
     "address map has lane or wave bits"},
    {"%9 = tile_lds_load %0 {layout=#6} : tile<32x32, f32, #0>",
     "address map lacks elements of the tile"},
    {"copy_to_lds %4, %0, %0, %0, %0 {group=9, shape=tile<32x32, bf16, #0>, layout=#6}",
     "no such group"},
    {"copy_to_lds %4, %0, %0, %0, %0 {group=0, shape=tile<32x32, bf16, #0>, layout=#6}",
     "address map does not cover 32x32"},
    {"gather_to_lds %3, %7, %0, %0 {group=0, shape=tile<32x32, bf16, #0>, layout=#6, offset=0}",
     "address map does not cover 32x32"},
    {"%9 = splat %1 : tile<32x32, f32, #8>", "layout is not of 64 lanes and 1 waves"},
    {"%9 = extract %5 {first=3} : vec<2, f32>", "reaches beyond its operand"},
    {"%9 = concat %5, %5 : vec<7, f32>", "result has 7 elements, not 8"},
    {"%9 = concat %5, %6 : vec<5, f32>", "operand 1 is no vec of the result's dtype"},
    {"%9 = convert_pair %5, %5 : vec<2, bf16>", "operands are not one f32 a lane"},
    {"%9 = convert_pair %8, %8 : vec<2, f32>", "result is not two 16-bit floats"},
    {"%9 = convert_pair %8, %8 {rounding=3} : vec<2, bf16>", "rounding is 0, 1 or 2"},
    {"%9 = convert_pair %8, %8 {rounding=2} : vec<2, bf16>",
     "rounding toward zero is for 16-bit floats, with short_nan"},
    {"%9 = mfma %5, %5, %5 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : vec<4, f32>",
     "element counts are not those of mfma_f32_32x32x8_bf16_1k"},
    {"%9 = lane_swap %6, %6 {half=8, which=0} : vec<1, i32>", "half is 16 or 32, which 0 or 1"},
    {"%9 = lane_xor %6 {mask=64} : vec<1, i32>", "mask is 1..63"},
    {"%9 = first_lane %5 : f32", "result is not the lane's element"},
    {"%9 = any %5 : i1", "operand 0 is not i1"},
    {"%9 = lane_count %6 : i32", "operand 0 is not i1"},
    {"%9 = lane_mask %6 : i64", "operand 0 is not i1"},
    {"%9 = lane_read %8, %0 : i32", "result is not the lane's element"},
    {"%9 = lanes_below %6 : vec<1, i32>", "operand 0 is not i1"},
    {"%9 = lane_sum_below %8 : vec<1, f32>", "operand 0 is not i32"},
    {"%9 = lane_sum_below %0 : i32", "operand is a scalar"},
    {"%10 = splat %0 : tile<1x32, i32, #3>\n%9 = lane_sum_below %10 : tile<1x32, i32, #3>",
     "lanes or waves share elements"},
    {"%9 = lds_gather %6 {offset=0} : vec<1, i64>", "result is not 32 bits for each address"},
    {"lds_scatter_if %6, %6, %6 {offset=0}", "operand 0 is not i1"},
    {"%10 = cmp_eq %6, %6 : vec<1, i1>\nlds_scatter_if %10, %6, %0 {offset=0}",
     "condition, address and value are not of one shape"},
    {"%10 = cmp_eq %6, %6 : vec<1, i1>\nlds_add_if %10, %6, %8 {offset=0}", "operand 2 is not i32"},
    {"%9 = buffer_load %4, %0, %0 {offset=0} : vec<4, f32>", "operand 1 is not one i32 a lane"},
    {"buffer_to_lds %4, %0, %6, %0 {group=0, bytes=8, offset=0}",
     "the machine copies no 8 bytes a lane to LDS"},
    {"global_to_lds %3, %0, %6 {group=0, bytes=8, offset=0}",
     "the machine copies no 8 bytes a lane to LDS"},
    {"%9 = lds_read_tr %6 {offset=0} : vec<4, f32>",
     "the machine has no transposing read of 128 bits, 32 each"},
    {"tensor_to_lds %3, %3, %0, %0 {group=0, rows=4, bytes=6, span=8, pad=0}",
     "bytes is no multiple of 4, or too large"},
    {"tensor_to_lds %3, %3, %0, %0 {group=0, rows=4, bytes=8, span=12, pad=4}",
     "span is no power of two from 8 to 1024"},
    {"tensor_to_lds %3, %3, %0, %0 {group=0, rows=4, bytes=8, span=8, pad=516}",
     "pad is no multiple of 4 up to 512"},
    {"wait_tensor {most=32}", "most is 0..31"},
    {"tensor_to_lds %3, %3, %0, %0 {group=1, rows=4, bytes=8, span=8, pad=0}\n"
     "global_to_lds %3, %0, %6 {group=1, bytes=4, offset=0}",
     "group 1 has copies of the tensor data mover and others"},
    {"buffer_to_lds %4, %0, %6, %0 {group=1, bytes=4, offset=0}\n"
     "if %2 { tensor_to_lds %3, %3, %0, %0 {group=1, rows=4, bytes=8, span=8, pad=0} yield } "
     "else { yield }",
     "group 1 has copies of the tensor data mover and others"},
    {"copy_to_lds %4, %0, %0, %0, %0 {group=1, shape=tile<32x32, bf16, #0>, layout=#10}\n"
     "tensor_to_lds %3, %3, %0, %0 {group=1, rows=4, bytes=8, span=8, pad=0}",
     "group 1 has copies of the tensor data mover and others"},
    {"buffer_to_lds %4, %0, %6, %0 {group=8, bytes=4, offset=0}", "no such group"},
    {"wait {group=0, pending=-1}", "no such group or count"},
    {"waitcnt {vm=64, lgkm=-1}", "vm is -1..63, lgkm -1..15"},
    {"set_priority {level=4}", "level is 0..3"},
    {"align_code {words=8, of=8}", "words is below `of`"},
    {"align_code {words=-1, of=8}", "words is below `of`"},
    {"align_code {words=2, of=2}", "words is below `of`"},
    {"align_code {words=0, of=4}", "of is 2 or 8"},
    {"settle {states=0}", "states is 1..20"},
    {"settle {states=21}", "states is 1..20"},
    {"phase {kind=2}", "kind is 0 or 1"},
    {"return", "ends a block before its end"},
    {"yield", "ends the wrong kind of block"},
    {"if %0 { yield } else { yield }", "operand 0 is not a scalar i1"},
    {"%9 = if %2 : i32 { yield } else { yield %0 }", "yields 0 values for 1 results"},
    {"%9 = if %2 : i32 { yield %1 } else { yield %0 }", "yield 0 has another type than the result"},
    {"if %2 { } else { yield }", "has an empty block"},
    {"if %2 { barrier } else { yield }", "does not end its block"},
    {"if %2 { %9 = add %0, %0 : i32 yield } else { yield }\n%10 = add %9, %9 : i32",
     "operand 0 is not defined before its use"},
    {"for %9 = %1 to %1 step %1 { yield }", "index is no scalar integer"},
    {"for %9 = %0 to %3 step %0 { yield }", "operand 1 is not of the index's type"},
    {"%10 = for %9 = %0 to %0 step %0 with (%11 = %1) : i32 { yield %11 }",
     "carried value 0 changes its type"},
    {"for %9 = %0 to %0 step %0 with (%11 = %1) { yield %11 }", "1 inits, 2 parameters, 0 results"},
    {"%9 = add %0, %0 : i32 @2.0\n%10 = add %9, %9 : i32 @1.0",
     "operand 0 is of stage 2, this of stage 1"},
    {"barrier @9.0", "stage 9"},
    {"barrier @1.8", "phase 8"},
    {"%9 = const_int {value=0} : i32\nfor %10 = %9 to %0 step %0 {\nbarrier @1.0\nyield\n}\n"
     "for %11 = %9 to %0 step %0 {\nbarrier @1.0\nyield\n}",
     "is the second pipelined loop of the function"},
    {"for %9 = %0 to %0 step %0 {\nbarrier @1.0\nyield\n}",
     "a pipelined loop counts from 0 in steps of 1"},
    {"%9 = const_int {value=0} : i32\n%10 = for %11 = %9 to %0 step %0 with (%12 = %9) : i32 {\n"
     "%13 = add %12, %0 : i32 @1.0\n%14 = add %12, %0 : i32 @2.0\nyield %14\n}",
     "carried value 1 is used in stage 1, phase 0 and made in stage 2, phase 0"},
    {"%9 = const_int {value=0} : i32\n%10 = for %11 = %9 to %0 step %0 with (%12 = %9) : i32 {\n"
     "%13 = add %12, %0 : i32 @1.2\n%14 = add %12, %0 : i32 @3.1\nyield %14\n}",
     "carried value 1 is used in stage 1, phase 2 and made in stage 3, phase 1"},
    {"%9 = const_int {value=0} : i32\n%10 = for %11 = %9 to %0 step %0 with (%12 = %9) : i32 {\n"
     "%13 = add %12, %0 : i32 @0.0\n%14 = add %12, %0 : i32 @1.0\nyield %13\n}",
     "carried value 1 is used in stage 1, phase 0 and made in stage 0, phase 0"},
    {"%9 = const_int {value=0} : i32\n%10 = for %11 = %9 to %0 step %0 with (%12 = %9) : i32 {\n"
     "%13 = add %12, %0 : i32 @1.0\nyield %0\n}",
     "carried value 1 of a pipelined loop is not made in it"},
    {"%9 = const_int {value=0} : i32\nfor %10 = %9 to %0 step %0 {\nwait {group=0, pending=0} "
     "@1.0\n"
     "%11 = tile_lds_load %9 {layout=#10} : tile<32x32, f32, #0> @1.0\nyield\n}",
     "comes after a wait that ends its phase"},
    {"barrier @-.40", "phase 40"},
    {"%9 = splat %4 : vec<1, rsrc>", "a buffer resource is a scalar"},
    {"%9 = splat %1 : f32", "result is no tile or vec of the operand's dtype"},
    {"%9 = splat %1 : vec<1, i32>", "result is no tile or vec of the operand's dtype"},
    {"%9 = and %0, %3 : i32", "operand 1 has another type than operand 0"},
    {"%9 = unit_pair %1, %8 : i32", "operand 1 has another type than operand 0"},
    {"%9 = bitcast %1 : vec<1, i32>", "result is of another kind"},
    {"%9 = convert %4 : i32", "is no conversion"},
    {"%9 = convert %1 {rounding=3} : bf16", "rounding is 0, 1 or 2"},
    {"%9 = convert %1 {rounding=2} : bf16",
     "rounding toward zero is for 16-bit floats, with short_nan"},
    {"%10 = convert %1 : f16\n%9 = convert %10 {short_nan=1, rounding=2} : f32",
     "rounding toward zero is for 16-bit floats, with short_nan"},
    {"%9 = col_max %7 : tile<1x32, i32, #3>", "result has another dtype"},
    {"%10 = splat %1 : tile<1x32, f32, #3>\n%9 = broadcast %10 : tile<32x32, i32, #0>",
     "result has another dtype"},
    {"%9 = row_dot %7, %7 : tile<32x32, f32, #0>", "result is not 32x1"},
    {"%10 = convert %7 : tile<32x32, i32, #0>\n%9 = row_prefix_sum %10 : tile<32x32, i32, #0>",
     "operand is not f32"},
    {"%9 = col_fold_dot %7, %7 : tile<32x32, f32, #0>", "operands are not bf16 and f32"},
    {"%10 = convert %7 : tile<32x32, bf16, #0>\n%9 = col_fold_dot %10, %7 : tile<32x32, f32, #0>",
     "operand 1 is not the rows that lanes hold of operand 0"},
    {"%10 = convert %7 : tile<32x32, bf16, #0>\n%9 = col_fold_top %10 : tile<32x32, i32, #0>",
     "result is not the rows that lanes hold of operand 0"},
    {"%10 = convert %7 : tile<32x32, bf16, #0>\n%9 = col_fold_top %10 : tile<2x32, f32, #7>",
     "result is not i32"},
    {"%9 = half %7 {which=2} : tile<32x32, f32, #0>", "which is neither 0 nor 1"},
    {"%9 = half %7 {which=0} : tile<32x32, f32, #0>",
     "result is not half of the registers of operand 0"},
    {"%10 = splat %1 : tile<32x32, f32, #9>\n%9 = half %10 {which=0} : tile<32x32, f32, #9>",
     "the last register bit of operand 0 is not that of the middle row"},
    {"%10 = convert %7 : tile<32x32, bf16, #0>\n%9 = col_flip %10 {cols=1} : "
     "tile<32x32, bf16, #0>",
     "operand 0 is not of 32-bit elements"},
    {"%10 = splat %3 : tile<32x1, i64, #5>\n"
     "%9 = tile_gather %3, %10, %0 {apart=3} : tile<32x32, f32, #0>",
     "elements 3 bytes apart overlap"},
    {"%10 = splat %0 : tile<32x1, i32, #5>\n"
     "%9 = tile_fetch %4, %10 {offset=-1} : tile<32x32, f32, #0>",
     "offset is below 0"},
    {"gather_to_lds %3, %7, %0, %0 {group=0, shape=tile<32x32, bf16, #0>, layout=#10, offset=0}",
     "row_addr is not an i64 or i32 of each row as the map has them"},
    {"copy_to_lds %4, %0, %0, %0, %0 {group=8, shape=tile<32x32, bf16, #0>, layout=#10}",
     "no such group"},
    {"copy_to_lds %4, %0, %0, %0, %0 {group=-1, shape=tile<32x32, bf16, #0>, layout=#10}",
     "no such group"},
    {"wait {group=8, pending=0}", "no such group or count"},
    {"wait {group=-3, pending=0}", "no such group or count"},
    {"waitcnt {vm=-2, lgkm=0}", "vm is -1..63, lgkm -1..15"},
    {"waitcnt {vm=0, lgkm=16}", "vm is -1..63, lgkm -1..15"},
    {"waitcnt {vm=0, lgkm=-2}", "vm is -1..63, lgkm -1..15"},
    {"set_priority {level=-1}", "level is 0..3"},
    {"%9 = block_id {dim=-1} : i32", "no such dimension"},
    {"%9 = arg {index=-1} : i32", "no such argument"},
    {"%9 = extract %5 {first=-1} : vec<2, f32>", "reaches beyond its operand"},
    {"%9 = extract %5 {first=0} : vec<2, i32>", "result has another dtype"},
    {"%9 = lane_swap %6, %8 {half=32, which=0} : vec<1, i32>", "types differ"},
    {"%9 = lane_swap %6, %6 {half=32, which=2} : vec<1, i32>", "half is 16 or 32, which 0 or 1"},
    {"%9 = lane_swap %3, %3 {half=32, which=0} : i64", "operand 0 is not a vec of 32 bits"},
    {"%10 = splat %3 : vec<1, i64>\n%9 = lane_swap %10, %10 {half=32, which=0} : vec<1, i64>",
     "operand 0 is not a vec of 32 bits"},
    {"%9 = lane_xor %6 {mask=0} : vec<1, i32>", "mask is 1..63"},
    {"global_to_lds %0, %0, %6 {group=0, bytes=4, offset=0}", "operand 0 is not a scalar i64"},
    {"%10 = cmp_eq %6, %6 : vec<1, i1>\n%11 = splat %3 : vec<1, i64>\n"
     "lds_scatter_if %10, %6, %11 {offset=0}",
     "value is not of 32 bits"},
    {"%10 = cmp_eq %6, %6 : vec<1, i1>\nif %10 { yield } else { yield }",
     "operand 0 is not a scalar i1"},
    {"%9 = global_load %3, %0 {offset=0} : vec<1, f32>", "operand 1 is not one i32 or i64 a lane"},
    {"%10 = splat %1 : tile<32x8, f32, #1>\n%11 = convert %10 : tile<32x8, bf16, #1>\n"
     "%12 = splat %1 : tile<8x32, f32, #13>\n%13 = convert %12 : tile<8x32, bf16, #13>\n"
     "%9 = mma %11, %13, %7 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #0>",
     "operands are not laid out for mfma_f32_32x32x8_bf16_1k"},
    {"%10 = splat %1 : tile<64x8, f32, #14>\n%11 = convert %10 : tile<64x8, bf16, #14>\n"
     "%12 = transpose %11 : tile<8x64, bf16, #15>\n%13 = splat %1 : tile<64x64, f32, #16>\n"
     "%9 = mma %11, %12, %13 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<64x64, f32, #16>",
     "registers walk the blocks of operands and result differently"},
    {"%10 = splat %1 : tile<128x8, f32, #19>\n%11 = convert %10 : tile<128x8, bf16, #19>\n"
     "%12 = splat %1 : tile<64x8, f32, #14>\n%13 = convert %12 : tile<64x8, bf16, #14>\n"
     "%14 = transpose %13 : tile<8x64, bf16, #15>\n%15 = splat %1 : tile<128x64, f32, #20>\n"
     "%9 = mma %11, %14, %15 {instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<128x64, f32, #20>",
     "registers walk the blocks of operands and result differently"},
    {"%10 = splat %1 : tile<16x8, f32, #17>\n%11 = convert %10 : tile<16x8, bf16, #17>\n"
     "%12 = splat %1 : tile<8x32, f32, #18>\n%13 = convert %12 : tile<8x32, bf16, #18>\n"
     "%9 = mma_halves %11, %13, %12 {instr=\"mfma_f32_16x16x16_bf16_1k\"} : tile<8x32, f32, #18>",
     "operand 1 is not laid out for 32 columns"},
    {"%10 = splat %1 : tile<16x8, f32, #17>\n%11 = convert %10 : tile<16x8, bf16, #17>\n"
     "%12 = splat %1 : tile<8x32, f32, #12>\n%13 = convert %12 : tile<8x32, bf16, #12>\n"
     "%9 = mma_halves %11, %13, %12 {instr=\"mfma_f32_16x16x16_bf16_1k\"} : tile<8x32, f32, #12>",
     "operand 0 is not laid out for mfma_f32_16x16x16_bf16_1k"},
    {"%10 = splat %1 : tile<16x8, f32, #17>\n%11 = convert %10 : tile<16x8, bf16, #17>\n"
     "%12 = splat %1 : tile<8x32, f32, #12>\n%13 = convert %12 : tile<8x32, bf16, #12>\n"
     "%9 = mma_halves %11, %13, %12 {instr=\"mfma_f32_16x16x16_bf16_1k\"} : tile<8x32, f32, #12>",
     "operand 2 is not laid out for mfma_f32_16x16x16_bf16_1k"},
    {"add %0, %0", "has 0 results"},
    {"%9 = const_int {value=0} : i32\nfor %10 = %9 to %0 step %9 {\nbarrier @1.0\nyield\n}",
     "a pipelined loop counts from 0 in steps of 1"},
    {"%9 = const_int {value=0} : i32\n%10 = add %0, %0 : i32\n"
     "for %11 = %9 to %0 step %10 {\nbarrier @1.0\nyield\n}",
     "a pipelined loop counts from 0 in steps of 1"},
};

static struct tir_func *with_constants(const char *body)
{
    static const char head[] =
        "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=4096 level=tile\n"
        "arg \"p\" : i64 at 0 arg \"n\" : i32 at 8\n"
        "layout #0 = regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #1 = regs(c1 c2) lanes(r1 r2 r4 r8 r16 c4)\n"
        "layout #2 = regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 0 r4)\n"
        "layout #3 = lanes(c1 c2 c4 c8 c16 0)\n"
        "layout #4 = lanes(c16 c2 c4 c8 c1 0)\n"
        "layout #5 = lanes(r1 r2 r4 r8 r16 0)\n"
        "layout #6 = regs(c1 c2 c4)\n"
        "layout #7 = lanes(c1 c2 c4 c8 c16 r1)\n"
        "layout #8 = regs(r1 r2 r8) lanes(c1 c2 c4 c8 c16 r4) waves(r16)\n"
        "layout #9 = regs(c1 c2 c8 c16) lanes(r1 r2 r4 r8 r16 c4)\n"
        "layout #10 = regs(c1 c2 c4 c8 c16 r1 r2 r4 r8 r16)\n"
        "layout #11 = regs(c1 c2 c4 c8 c16 r1 r2 r4 r8 r16) pad(4 per 32)\n"
        "layout #12 = regs(r1 r2) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #13 = regs(r2 r1) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #14 = regs(c1 c2 r32) lanes(r1 r2 r4 r8 r16 c4)\n"
        "layout #15 = regs(r1 r2 c32) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #16 = regs(r1 r2 r8 r16 c32 r32) lanes(c1 c2 c4 c8 c16 r4)\n"
        "layout #17 = regs(c1 c2) lanes(r1 r2 r4 r8 0 c4)\n"
        "layout #18 = regs(r1 r2) lanes(c2 c1 c4 c8 c16 r4)\n"
        "layout #19 = regs(c1 c2 r32 r64) lanes(r1 r2 r4 r8 r16 c4)\n"
        "layout #20 = regs(r1 r2 r8 r16 r64 r32 c32) lanes(c1 c2 c4 c8 c16 r4)\n{\n" CONSTANTS;
    char *text = NULL;
    assert_true(asprintf(&text, "%s%s\n  return\n}\n", head, body) > 0);
    struct tir_func *const f = parsed(text);
    free(text);
    return f;
}

TEST(verify_finds_what_each_rule_forbids)
{
    for (unsigned i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        struct tir_func *const f = with_constants(broken[i].body);
        char *const text = findings(f);
        char *line = NULL;
        assert_true(asprintf(&line, "// error: %s\n", broken[i].finding) > 0);
        if (!strstr(text, line))
            fail_msg("%s\nlacks \"%s\":\n%s", broken[i].body, broken[i].finding, text);
        free(line);
        free(text);
        tir_func_destroy(f);
    }
}

/* Also in builds without asserts the driver verifies before the first pass. The second pipelined
 * loop breaks a rule: lower_pipeline would leave it unchanged. */
TEST(the_driver_runs_no_pass_over_what_breaks_a_rule)
{
    static const struct tir_schedule schedule = {.loop.stages = 2};
    struct tir_func *const f = with_constants(
        "%9 = const_int {value=0} : i32\nfor %10 = %9 to %0 step %0 {\nbarrier @1.0\n"
        "yield\n}\nfor %11 = %9 to %0 step %0 {\nbarrier @1.0\nyield\n}");
    char *const before = printed(f), *text = NULL, why[128];
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    const struct tir_pass_options options = {.schedule = &schedule, .out = out};
    assert_false(tir_run_passes(f, &options, why));
    fclose(out);
    assert_string_equal(why, "f breaks a rule of the tile IR: a bug of its template");
    assert_non_null(strstr(text, "// error: is the second pipelined loop of the function"));
    char *const after = printed(f);
    assert_string_equal(after, before);
    free(before);
    free(after);
    free(text);
    tir_func_destroy(f);
}

TEST(verify_accepts_what_keeps_the_rules)
{
    static const char *const bodies[] = {
        "%9 = add %7, %7 : tile<32x32, f32, #0>",
        "%9 = cmp_gt %7, %7 : tile<32x32, i1, #0>\n%10 = select %9, %7, %7 : tile<32x32, f32, #0>",
        "%9 = col_max %7 : tile<1x32, f32, #3>\n%10 = broadcast %9 : tile<32x32, f32, #0>",
        "%9 = col_fold_max %7 : tile<2x32, f32, #7>",
        "%9 = convert_pair %8, %8 : vec<2, bf16>\n%10 = lane_swap %9, %9 {half=32, which=1} : "
        "vec<2, bf16>",
        "%9 = for %10 = %0 to %0 step %0 with (%11 = %1) : f32 { yield %11 }",
        "tensor_to_lds %3, %3, %0, %0 {group=1, rows=4, bytes=8, span=8, pad=0}\n"
        "global_to_lds %3, %0, %6 {group=2, bytes=4, offset=0}\n"
        "tensor_to_lds %3, %3, %0, %0 {group=1, rows=4, bytes=8, span=8, pad=0}\n"
        "buffer_to_lds %4, %0, %6, %0 {group=2, bytes=4, offset=0}",
    };
    for (unsigned i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct tir_func *const f = with_constants(bodies[i]);
        char *const text = findings(f);
        assert_string_equal(text, "");
        free(text);
        tir_func_destroy(f);
    }
}

/* A's lanes have the rows 16, 1, 2, 4, 8. The product must have its rows in that order. */
TEST(verify_lets_a_matrix_operand_order_its_rows)
{
    static const char *const results[] = {"regs(r16 r1 r4 r8) lanes(c1 c2 c4 c8 c16 r2)",
                                          "regs(r1 r2 r8 r16) lanes(c1 c2 c4 c8 c16 r4)"};
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=0 level=tile\n"
                 "layout #0 = regs(c1 c2) lanes(r16 r1 r2 r4 r8 c4)\n"
                 "layout #1 = regs(r1 r2) lanes(c1 c2 c4 c8 c16 r4)\nlayout #2 = %s\n{\n"
                 "  %%0 = const_float {bits=1} : bf16\n  %%1 = splat %%0 : tile<32x8, bf16, #0>\n"
                 "  %%2 = splat %%0 : tile<8x32, bf16, #1>\n  %%3 = const_float {bits=0} : f32\n"
                 "  %%4 = splat %%3 : tile<32x32, f32, #2>\n  %%5 = mma %%1, %%2, %%4 "
                 "{instr=\"mfma_f32_32x32x8_bf16_1k\"} : tile<32x32, f32, #2>\n  return\n}\n",
                 results[i]);
        struct tir_func *const f = parsed(text);
        char *const found = findings(f);
        if (i == 0)
            assert_string_equal(found, "");
        else
            assert_non_null(strstr(found, "operand 2 is not laid out for"));
        free(found);
        tir_func_destroy(f);
    }
}

TEST(verify_collects_and_blames)
{
    struct tir_func *const f = parsed_body("  %0 = const_int {value=1} : f32\n"
                                           "  %1 = const_float {bits=1} : i32\n");
    char *const text = findings(f);
    assert_string_equal(text,
                        "// 3 errors after the test\n"
                        "func \"f\" machine=\"test\" waves=1 waves_per_simd=1 lds=4096 level=tile\n"
                        "arg \"p\" : i64 at 0\n"
                        "arg \"n\" : i32 at 8\n"
                        "{\n"
                        "// error: result is no integer\n"
                        "  %0 = const_int {value=1} : f32\n"
                        "// error: does not end its block\n"
                        "// error: result is no float\n"
                        "  %1 = const_float {bits=1} : i32\n"
                        "}\n");
    free(text);
    tir_func_destroy(f);
}

TEST(verify_forbids_tiles_after_lowering)
{
    struct tir_func *const f = parsed_body("  %0 = row_index : tile<32x32, i32, #0>\n  return\n");
    f->lowered = true;
    char *const text = findings(f);
    assert_non_null(strstr(text, "// error: tile after lower_tiles\n"));
    free(text);
    tir_func_destroy(f);
}

TEST(verify_sees_an_op_in_two_places_and_a_value_of_no_op)
{
    struct tir_func *const f = parsed_body("  %0 = const_int {value=1} : i32\n"
                                           "  %1 = add %0, %0 : i32\n  return\n");
    tir_insert(f, f->body, 1, f->body->ops[0]);
    tir_op(f, f->body->ops[2])->operands[1].id = 12345;
    char *const text = findings(f);
    assert_non_null(strstr(text, "// error: stands in two places\n"));
    assert_non_null(strstr(text, "// error: operand 1 is no value\n  %1 = add %0, %?"));
    free(text);
    tir_func_destroy(f);
}

int main(void) { return run_unit_tests(); }
