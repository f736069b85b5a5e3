// The fast encoder: one branch-free body, compiled for each vector width and chosen at run time.
#include "nvfp4/encode.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace twofold {
namespace {

constexpr std::int32_t magnitude_bits = 0x7FFFFFFF;
constexpr std::size_t sub_weights = 16;
constexpr std::size_t sub_blocks = nvfp4_block_weights / sub_weights;

// Compiler vectors: one lane a weight of a sub-block (x16) or a sub-block of a block (x4). The compiler
// lowers them to whatever registers the surrounding function's target has.
using Floats16 = float __attribute__((vector_size(64)));
using Words16 = std::int32_t __attribute__((vector_size(64)));
using Words8 = std::int32_t __attribute__((vector_size(32)));
using Bytes8 = std::uint8_t __attribute__((vector_size(8)));
using Floats4 = float __attribute__((vector_size(16)));
using Words4 = std::int32_t __attribute__((vector_size(16)));

// Nearest even E4M3 codes of numbers that are not negative; above 448 it is 448.
[[gnu::always_inline]] inline void e4m3_codes(const Floats4& values, Words4& codes) {
    const Floats4 limited = values < 448.0F ? values : Floats4{} + 448.0F;
    const Words4 bits = (Words4) limited;
    // Adding half a step, less one when the kept part is even, rounds to nearest even; 120 rebases the
    // exponent.
    const Words4 normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3);
    // Below 2^-6 the steps are 2^-9 wide; adding 2^23 leaves the rounded count of steps in the low bits.
    const Words4 steps = (Words4) (limited * 512.0F + 8388608.0F) & 0xF;
    codes = limited < 0x1p-6F ? steps : normal;
}

[[gnu::always_inline]] inline void e4m3_values(const Words4& codes, Floats4& values) {
    const Floats4 subnormal = __builtin_convertvector(codes, Floats4) * 0x1p-9F;
    const Floats4 normal = (Floats4) ((codes << 20) + (120 << 23));
    values = codes < 8 ? subnormal : normal;
}

[[gnu::always_inline]] inline void e2m1_codes(const Floats16& scaled, Words16& codes) {
    const Words16 size = (Words16) scaled & magnitude_bits;
    // From 1 up: add a hair less than half a step, so that ties go down, and keep one bit of the mantissa.
    Words16 normal = ((size + 0x1FFFFF) >> 22) - (126 << 1);
    normal = normal < 7 ? normal : Words16{} + 7;
    // Below 1 the midpoints are counted; a comparison that holds is -1.
    const Words16 small = -(((Floats16) size > 0.25F) + ((Floats16) size > 0.75F));
    codes = normal > small ? normal : small;
    codes |= ((Words16) scaled >> 28) & 8 & (codes > 0);
}

// Folds two vectors of bits into one: the larger of each vector's two halves, one after the other.
[[gnu::always_inline]] inline void fold(const Words16& a, const Words16& b, Words16& folded) {
    const Words16 low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const Words16 high =
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    folded = low > high ? low : high;
}

// Lane s: the largest bits, without sign, of part s. Their order is the order of the magnitudes.
[[gnu::always_inline]] inline void largest_bits(const Floats16 (&part)[sub_blocks], Words4& largest) {
    Words16 a = (Words16) part[0] & magnitude_bits;
    Words16 b = (Words16) part[1] & magnitude_bits;
    Words16 c = (Words16) part[2] & magnitude_bits;
    Words16 d = (Words16) part[3] & magnitude_bits;
    fold(a, b, a); // eight lanes of part 0, eight of part 1
    fold(c, d, c);
    const Words16 low =
        __builtin_shufflevector(a, c, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    const Words16 high =
        __builtin_shufflevector(a, c, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
    Words16 four = low > high ? low : high; // four lanes a part
    const Words16 turned =
        __builtin_shufflevector(four, four, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    four = four > turned ? four : turned;
    const Words16 swapped =
        __builtin_shufflevector(four, four, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    four = four > swapped ? four : swapped;
    largest = Words4{four[0], four[4], four[8], four[12]};
}

[[gnu::always_inline]] inline void encode_body(const float* weights, std::size_t count, float scale,
                                               std::uint8_t* blocks) {
    for (std::size_t at = 0; at < count; at += nvfp4_block_weights, blocks += nvfp4_block_bytes) {
        Floats16 part[sub_blocks];
        std::memcpy(part, weights + at, sizeof part);

        Words4 magnitude;
        largest_bits(part, magnitude);
        Words4 scale_codes;
        Floats4 steps;
        e4m3_codes((Floats4) magnitude / 6.0F / scale, scale_codes);
        e4m3_values(scale_codes, steps);
        steps *= scale;
        // A step of 0 (scale rounded or underflowed to 0) makes the sub-block zeros.
        const Words4 used = steps > 0.0F;
        scale_codes &= used;
        const Floats4 divisors = used ? steps : Floats4{} + 1.0F;

        for (std::size_t s = 0; s < sub_blocks; ++s) {
            Words16 codes;
            e2m1_codes(part[s] / divisors[s], codes);
            codes &= used[s];
            // Low nibbles are the first eight weights, high nibbles the last eight.
            const Words8 first = __builtin_shufflevector(codes, codes, 0, 1, 2, 3, 4, 5, 6, 7);
            const Words8 last = __builtin_shufflevector(codes, codes, 8, 9, 10, 11, 12, 13, 14, 15);
            const Bytes8 packed = __builtin_convertvector(first | (last << 4), Bytes8);
            blocks[s] = static_cast<std::uint8_t>(scale_codes[s]);
            std::memcpy(blocks + sub_blocks + s * sizeof packed, &packed, sizeof packed);
        }
    }
}

[[gnu::always_inline]] inline float max_magnitude_body(const float* values, std::size_t count) {
    // Without the sign, the order of the bits is the order of the numbers, infinity and NaN on top.
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i)
        largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & magnitude_bits);
    return std::bit_cast<float>(largest);
}

void encode_baseline(const float* weights, std::size_t count, float scale, std::uint8_t* blocks) {
    encode_body(weights, count, scale, blocks);
}

float magnitude_baseline(const float* values, std::size_t count) {
    return max_magnitude_body(values, count);
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
void encode_avx512(const float* weights, std::size_t count, float scale, std::uint8_t* blocks) {
    encode_body(weights, count, scale, blocks);
}

[[gnu::target("avx2")]]
void encode_avx2(const float* weights, std::size_t count, float scale, std::uint8_t* blocks) {
    encode_body(weights, count, scale, blocks);
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
float magnitude_avx512(const float* values, std::size_t count) {
    return max_magnitude_body(values, count);
}

[[gnu::target("avx2")]]
float magnitude_avx2(const float* values, std::size_t count) {
    return max_magnitude_body(values, count);
}
#endif

std::vector<Nvfp4Encoder> runnable_encoders() {
    std::vector<Nvfp4Encoder> encoders;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        encoders.push_back({"avx512", encode_avx512, magnitude_avx512});
    if (__builtin_cpu_supports("avx2"))
        encoders.push_back({"avx2", encode_avx2, magnitude_avx2});
#endif
    encoders.push_back({"baseline", encode_baseline, magnitude_baseline});
    return encoders;
}

} // namespace

const std::vector<Nvfp4Encoder>& nvfp4_encoders() {
    static const std::vector<Nvfp4Encoder> encoders = runnable_encoders();
    return encoders;
}

float max_magnitude(const float* values, std::size_t count) {
    return nvfp4_encoders().front().max_magnitude(values, count);
}

float nvfp4_tensor_scale(float magnitude) {
    const float scale = magnitude / (6.0F * 448.0F);
    return scale > 0.0F ? scale : 1.0F;
}

void nvfp4_encode(const float* weights, std::size_t count, float scale, std::uint8_t* blocks) {
    nvfp4_encoders().front().encode(weights, count, scale, blocks);
}

} // namespace twofold
