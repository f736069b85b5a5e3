// The dot products of each instruction set.
#pragma once

#include "dot/row_dot.h"

namespace twofold {

extern const RowDot plain_nvfp4;
// What the fast ones of 8-bit activations are compared with.
extern const RowDot plain_q2_0;
extern const RowDot plain_iq1_s;
extern const RowDot plain_iq2_xxs;
#if defined(__x86_64__)
extern const RowDot avx2_nvfp4;
extern const RowDot avx2_q2_0;
extern const RowDot avx2_iq1_s;
extern const RowDot avx2_iq2_xxs;
extern const RowDot avx512_nvfp4;
// Also need VNNI and VBMI.
extern const RowDot avx512_q2_0;
extern const RowDot avx512_iq1_s;
extern const RowDot avx512_iq2_xxs;
#endif

} // namespace twofold
