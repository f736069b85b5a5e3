// madvise: future pages huge, present ones collapsed.
#include "disk/huge_pages.h"
#include "disk/file_reader.h"

#include <cstdint>

#include <sys/mman.h>

namespace twofold {

void prefer_huge_pages(std::byte* begin, std::size_t size) {
    const std::size_t skip = -reinterpret_cast<std::uintptr_t>(begin) % direct_alignment;
    if (size < skip + direct_alignment) {
        return;
    }
    const std::size_t whole = (size - skip) / direct_alignment * direct_alignment;
    madvise(begin + skip, whole, MADV_HUGEPAGE);
    constexpr int collapse = 25; // MADV_COLLAPSE of Linux 6.1, which older C libraries do not name
    madvise(begin + skip, whole, collapse);
}

} // namespace twofold
