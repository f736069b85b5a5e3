// Rounding counts and bytes up, for work memory that is cut into pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

inline constexpr std::size_t work_alignment = 64; // of each piece

constexpr std::int64_t divided_up(std::int64_t value, std::int64_t by) {
    return (value + by - 1) / by;
}
constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t to) {
    return divided_up(value, to) * to;
}
constexpr std::size_t aligned(std::size_t bytes) {
    return (bytes + work_alignment - 1) / work_alignment * work_alignment;
}
// The first aligned byte at `work` or after it.
inline std::byte* first_aligned(void* work) {
    const auto address = reinterpret_cast<std::uintptr_t>(work);
    return static_cast<std::byte*>(work) + (work_alignment - address % work_alignment) % work_alignment;
}

} // namespace twofold
