// BF16 products on AMX tiles: two by two accumulators of 16 x 16.
#include "kernels/avx512_bf16_pack.h"
#include "kernels/kernel.h"
#include "kernels/softmax.h"

namespace twofold {
namespace {

constexpr std::int64_t strip = 32;

// The layout that ldtilecfg reads. In read-only data: some compilers drop the stores to one on the stack.
struct TileConfig {
    std::uint8_t palette;
    std::uint8_t start_row;
    std::uint8_t reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t rows[16];
};
alignas(64) const TileConfig tile_config = {
    1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

// The library configures each of its threads once and relies on that ever after: it is put back by end().
alignas(64) thread_local TileConfig found_config;

void begin() {
    _tile_storeconfig(&found_config);
    _tile_loadconfig(&tile_config);
}

void end() {
    if (found_config.palette == 0)
        _tile_release();
    else
        _tile_loadconfig(&found_config);
}

// A strip is [K / 32][2 halves][16 rows][32].
void pack_rows(const float* const* rows, std::int64_t count, std::int64_t k, void* packed) {
    auto* out = static_cast<std::uint16_t*>(packed);
    for (std::int64_t row = 0; row < strip; ++row) {
        std::uint16_t* to = out + row * 32;
        for (std::int64_t first = 0; first < k; first += pair_depth) {
            _mm512_store_si512(to,
                               row < count ? round_32(rows[row] + first, k - first) : _mm512_setzero_si512());
            to += 2 * half_tile;
        }
    }
}

void multiply(const void* packed_rows, const void* panel, std::int64_t k, std::int64_t used,
              const float* sums, float* out, std::int64_t out_stride) {
    const auto* a = static_cast<const std::uint16_t*>(packed_rows);
    const auto* b = static_cast<const std::uint16_t*>(panel);
    if (sums) {
        constexpr std::size_t row_bytes = pair_panel * sizeof(float);
        const float* lower = sums + 16 * pair_panel;
        _tile_loadd(0, sums, row_bytes);
        _tile_loadd(1, sums + 16, row_bytes);
        _tile_loadd(2, lower, row_bytes);
        _tile_loadd(3, lower + 16, row_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    // Strips pass through the first-level cache without staying, so that the panel does stay there.
    if (used > 16) {
        for (std::int64_t first = 0; first < k; first += pair_depth) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + half_tile, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_stream_loadd(5, a + half_tile, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
            a += 2 * half_tile;
            b += 2 * half_tile;
        }
    } else {
        for (std::int64_t first = 0; first < k; first += pair_depth) {
            _tile_stream_loadd(4, a, 64);
            _tile_loadd(6, b, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + half_tile, 64);
            _tile_dpbf16ps(1, 4, 7);
            a += 2 * half_tile;
            b += 2 * half_tile;
        }
    }
    const std::size_t row_bytes = static_cast<std::size_t>(out_stride) * sizeof(float);
    float* lower = out + 16 * out_stride;
    _tile_stored(0, out, row_bytes);
    _tile_stored(1, out + 16, row_bytes);
    _tile_stored(2, lower, row_bytes);
    _tile_stored(3, lower + 16, row_bytes);
}

double spin(std::int64_t rounds) {
    for (std::int64_t i = 0; i < rounds; ++i) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    return static_cast<double>(rounds) * 4 * (2 * 16 * 16 * 32);
}

} // namespace

const Kernel kernel_amx = {
    .name = "amx",
    .strip = strip,
    .panel = pair_panel,
    .depth = pair_depth,
    .element_bytes = 2,
    .block_rows = 512,
    .begin = begin,
    .end = end,
    .pack_rows = pack_rows,
    .pack_weights = pack_weight_pairs,
    .pack_nvfp4 = pack_nvfp4_pairs,
    .pack_columns = pack_column_pairs,
    .multiply = multiply,
    .scale_scores = scale_scores,
    .exponentiate = exponentiate,
    .attention = nullptr,
    .spin = spin,
};

} // namespace twofold
