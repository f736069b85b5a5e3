// fsync, then posix_fadvise.
#include "disk/page_cache.h"
#include "disk/descriptor.h"
#include "error.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace twofold {

namespace {

std::string reason(int error) {
    return std::generic_category().message(error);
}

} // namespace

void drop_from_page_cache(const std::filesystem::path& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) {
        throw Error("disk.open_failed", {{"path", path.string()}, {"reason", reason(errno)}});
    }
    int error = fsync(file.get()) == 0 ? 0 : errno;
    if (error == 0) {
        error = posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
    if (error != 0) {
        throw Error("disk.sync_failed", {{"path", path.string()}, {"reason", reason(error)}});
    }
}

} // namespace twofold
