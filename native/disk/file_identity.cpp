// Takes a file's identity from its status.
#include "disk/file_identity.h"

namespace twofold {

FileIdentity identity_of(const struct stat& facts) {
    return {.device = facts.st_dev,
            .number = facts.st_ino,
            .size = facts.st_size,
            .written_seconds = facts.st_mtim.tv_sec,
            .written_nanoseconds = facts.st_mtim.tv_nsec};
}

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) {
        return std::nullopt;
    }
    return identity_of(facts);
}

} // namespace twofold
