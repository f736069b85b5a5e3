// macOS: F_NOCACHE, msync.
#include "disk/system.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace twofold {

FileHandle open_file(const std::filesystem::path& path, bool direct) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && direct && fcntl(fd, F_NOCACHE, 1) == -1) {
        ::close(fd);
        errno = EINVAL;
        return no_file;
    }
    return fd;
}

// Any file system takes F_NOCACHE, which has no rules on alignment.
bool direct_suits(FileHandle /*file*/) {
    return true;
}

FileHandle through_cache(FileHandle file) {
    const int fd = static_cast<int>(file);
    fcntl(fd, F_NOCACHE, 0);
    fcntl(fd, F_RDAHEAD, 1);
    return file;
}

// Pages leave the cache when a mapping of theirs is told that they are out of date.
bool empty_cache(FileHandle file) {
    const int fd = static_cast<int>(file);
    struct stat facts{};
    if (fsync(fd) != 0 || fstat(fd, &facts) != 0) {
        return false;
    }
    if (facts.st_size == 0) {
        return true;
    }
    const auto size = static_cast<std::size_t>(facts.st_size);
    void* view = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (view == MAP_FAILED) {
        return false;
    }
    const int error = msync(view, size, MS_INVALIDATE) == 0 ? 0 : errno;
    munmap(view, size);
    errno = error;
    return error == 0;
}

// The system has no huge pages for memory in use.
void advise_huge_pages(std::byte* /*pages*/, std::size_t /*size*/) {}

} // namespace twofold
