// Cuts memory to whole pages and hands them to the system.
#include "disk/huge_pages.h"
#include "disk/system.h"

#include <cstdint>

namespace twofold {

void prefer_huge_pages(std::byte* begin, std::size_t size) {
    const std::size_t skip = -reinterpret_cast<std::uintptr_t>(begin) % direct_alignment;
    if (size < skip + direct_alignment) {
        return;
    }
    const std::size_t whole = (size - skip) / direct_alignment * direct_alignment;
    advise_huge_pages(begin + skip, whole);
}

} // namespace twofold
