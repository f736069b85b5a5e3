// Asks for large memory pages where direct reads land.
#pragma once

#include <cstddef>

namespace twofold {

inline constexpr std::size_t huge_page_bytes = 2 * 1024 * 1024;

// The whole pages in [begin, begin + size) become huge pages where the kernel has them, whether they have
// been touched or not; contents stay. A request for one contiguous megabyte is one piece for the drive,
// whereas 256 scattered pages exceed what many drives take at once and are split. Only advice: never fails.
void prefer_huge_pages(std::byte* begin, std::size_t size);

} // namespace twofold
