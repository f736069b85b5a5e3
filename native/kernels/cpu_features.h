// What this processor can compute with, and the operating system has enabled.
#pragma once

namespace twofold {

struct CpuFeatures {
    bool avx2 = false;        // with FMA and F16C
    bool avx512 = false;      // F, BW, DQ and VL
    bool avx512_vnni = false; // and VBMI
    bool avx512_bf16 = false;
    bool amx_bf16 = false; // and this process may use tiles
    bool neon = false;
    bool neon_bf16 = false;
};

// Asks once. On Linux, tiles need the kernel's permission, which is requested here for the whole process.
const CpuFeatures& cpu_features();

} // namespace twofold
