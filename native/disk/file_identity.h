// Which file this is, and whether anybody has written to it since.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <sys/stat.h>

namespace twofold {

struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t number = 0; // inode
    std::int64_t size = 0;
    std::int64_t written_seconds = 0;
    std::int64_t written_nanoseconds = 0;

    bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(const struct stat& facts);

// Of what `path` leads to now; nothing when that cannot be told.
std::optional<FileIdentity> identity_of(const std::filesystem::path& path);

} // namespace twofold
