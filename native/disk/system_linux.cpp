// Linux: O_DIRECT, posix_fadvise, madvise.
#include "disk/system.h"

#include <cerrno>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace twofold {

FileHandle open_file(const std::filesystem::path& path, bool direct) {
    return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (direct ? O_DIRECT : 0));
}

bool direct_suits(FileHandle file) {
    const int fd = static_cast<int>(file);
    struct statfs system{};
    // tmpfs accepts O_DIRECT and serves it from the page cache, which is where its files live.
    if (fstatfs(fd, &system) == 0 && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)) {
        return false;
    }
#ifdef STATX_DIOALIGN
    struct statx facts{};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 && (facts.stx_mask & STATX_DIOALIGN) != 0) {
        return facts.stx_dio_offset_align != 0 && direct_alignment % facts.stx_dio_offset_align == 0 &&
               facts.stx_dio_mem_align != 0 && direct_alignment % facts.stx_dio_mem_align == 0;
    }
#endif
    return true;
}

// Keeps what it reads in the cache: that speeds up the next prompt, and the kernel takes it back at need.
FileHandle through_cache(FileHandle file) {
    const int fd = static_cast<int>(file);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return file;
}

bool empty_cache(FileHandle file) {
    const int fd = static_cast<int>(file);
    if (fsync(fd) != 0) {
        return false;
    }
    errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return errno == 0;
}

void advise_huge_pages(std::byte* pages, std::size_t size) {
    madvise(pages, size, MADV_HUGEPAGE);
    constexpr int collapse = 25; // MADV_COLLAPSE of Linux 6.1, which older C libraries do not name
    madvise(pages, size, collapse);
}

} // namespace twofold
