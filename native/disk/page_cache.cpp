// fsync, then posix_fadvise.
#include "disk/page_cache.h"
#include "disk/descriptor.h"
#include "error.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace twofold {

void drop_from_page_cache(const std::filesystem::path& path) {
    const auto fail = [&](const char* code, int error) {
        throw Error(code, {{"path", path.string()}, {"reason", std::generic_category().message(error)}});
    };
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
        fail("disk.open_failed", errno);
    }
    if (fsync(file.get()) != 0) {
        fail("disk.sync_failed", errno);
    }
    if (const int error = posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
        fail("disk.sync_failed", error);
    }
}

} // namespace twofold
