// The inner loops of a matrix product on one instruction set; each kernel_*.cpp holds one.
//
// All compute the same: BF16-rounded activations times BF16 weights, summed in FP32. They differ in the
// instruction set, in how operands are packed for it, and so in the order of the additions. In K, packed
// operands are in order: what was packed for `depth` values more follows what was packed before.
//
// A kernel_*.cpp is compiled for its instruction set alone: it must not include headers whose inline
// functions other files share, or the linker may hand those a version that this processor cannot run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

struct Kernel {
    const char* name;
    std::int64_t strip;        // rows of activations that are packed together
    std::int64_t panel;        // rows of weights that are packed together
    std::int64_t depth;        // packed operands are padded with zeros to a multiple of this in K
    std::size_t element_bytes; // of a packed activation or weight
    // Rows of activations that one block of the product spans at most: as packed for one block in K, they
    // should fill a half of a second-level cache.
    std::int64_t block_rows;

    // Prepare and release what multiply() needs of the calling thread; null when nothing.
    void (*begin)();
    void (*end)();

    // Packs `k` values of each of `count` rows, rounded to BF16; the strip's other rows become zeros.
    void (*pack_rows)(const float* const* rows, std::int64_t count, std::int64_t k, void* strip);
    // Packs a panel of weights, row-major with `stride` values from row to row, rounded to BF16.
    void (*pack_weights)(const float* weights, std::int64_t stride, std::int64_t k, void* panel);
    // Decodes and packs `k` (a multiple of 64) NVFP4 weights of each of `count` rows, `stride` bytes apart;
    // columns of the panel beyond `count` are undefined. Null: convert to FP32 and pack_weights().
    void (*pack_nvfp4)(const std::uint8_t* rows, std::size_t stride, std::int64_t count, std::int64_t k,
                       void* panel);
    // As pack_weights(), of weights with K outermost, `stride` values from one k to the next; `k` is a
    // multiple of depth.
    void (*pack_columns)(const float* weights, std::int64_t stride, std::int64_t k, void* panel);
    // out[row][column] = sums[row][column] + the sum over k, for a whole tile of strip x panel values, of
    // which the first `used` rows need to be right. `sums` has rows of `panel` values and may be null, for
    // zeros, or `out`; rows of `out` are `out_stride` values apart. `k` is a multiple of depth.
    void (*multiply)(const void* strip, const void* panel, std::int64_t k, std::int64_t used,
                     const float* sums, float* out, std::int64_t out_stride);

    // A row of attention's scores; `count` is a multiple of panel. scale_scores() makes each score x into
    // softcap * tanh(scale * x), or scale * x where softcap is 0, plus its bias, where there is one, and
    // returns the largest; exponentiate() makes it into e^(x - largest) and returns their sum.
    float (*scale_scores)(float* scores, const float* bias, std::int64_t count, float scale, float softcap);
    float (*exponentiate)(float* scores, std::int64_t count, float largest);

    // What computes attention where this kernel multiplies: one whose packed operands are FP32, not rounded.
    // Null: this one, from operands in two parts (see attention.h).
    const Kernel* attention;

    // Runs the multiplying instruction `rounds` times on registers alone and returns the floating-point
    // operations that took: what no product can be faster than. Between begin() and end().
    double (*spin)(std::int64_t rounds);
};

// One for each kernel_*.cpp of the architecture compiled for.
#if defined(__x86_64__)
extern const Kernel kernel_amx;
extern const Kernel kernel_avx512_bf16;
extern const Kernel kernel_avx512;
extern const Kernel kernel_avx2;
#elif defined(__aarch64__)
extern const Kernel kernel_neon_bf16;
extern const Kernel kernel_neon;
#endif
extern const Kernel kernel_scalar;

// The same without rounding of operands, for attention.
#if defined(__x86_64__)
extern const Kernel floats_avx512;
extern const Kernel floats_avx2;
#elif defined(__aarch64__)
extern const Kernel floats_neon;
#endif
extern const Kernel floats_scalar;

} // namespace twofold
