// What Linux and macOS share: descriptors, pread, file status.
#include "disk/file_identity.h"
#include "disk/system.h"

#include <sys/stat.h>
#include <unistd.h>

namespace twofold {

namespace {

FileIdentity identity_from(const struct stat& facts) {
#ifdef __APPLE__
    const timespec written = facts.st_mtimespec;
#else
    const timespec written = facts.st_mtim;
#endif
    return {.device = static_cast<std::uint64_t>(facts.st_dev),
            .number = facts.st_ino,
            .size = facts.st_size,
            .written_seconds = written.tv_sec,
            .written_nanoseconds = written.tv_nsec};
}

} // namespace

void close_file(FileHandle file) {
    ::close(static_cast<int>(file));
}

bool is_regular_file(FileHandle file) {
    struct stat facts{};
    return ::fstat(static_cast<int>(file), &facts) == 0 && S_ISREG(facts.st_mode);
}

std::ptrdiff_t positional_read(FileHandle file, std::byte* dst, std::size_t size, std::int64_t offset) {
    return ::pread(static_cast<int>(file), dst, size, offset);
}

std::optional<FileIdentity> identity_of(FileHandle file) {
    struct stat facts{};
    if (::fstat(static_cast<int>(file), &facts) != 0) {
        return std::nullopt;
    }
    return identity_from(facts);
}

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) {
        return std::nullopt;
    }
    return identity_from(facts);
}

} // namespace twofold
