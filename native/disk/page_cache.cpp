// Opens the file and has the system empty its cache.
#include "disk/page_cache.h"
#include "disk/descriptor.h"
#include "error.h"

#include <cerrno>
#include <string>
#include <system_error>

namespace twofold {

namespace {

std::string reason(int error) {
    return std::generic_category().message(error);
}

} // namespace

void drop_from_page_cache(const std::filesystem::path& path) {
    const Descriptor file(open_file(path, false));
    if (!file.valid()) {
        throw Error("disk.open_failed", {{"path", path.string()}, {"reason", reason(errno)}});
    }
    if (!empty_cache(file.get())) {
        throw Error("disk.sync_failed", {{"path", path.string()}, {"reason", reason(errno)}});
    }
}

} // namespace twofold
