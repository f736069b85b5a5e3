// Which file this is, and whether anybody has written to it since.
#pragma once

#include "disk/system.h"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace twofold {

struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t number = 0; // inode, or Windows' file index
    std::int64_t size = 0;
    std::int64_t written_seconds = 0;
    std::int64_t written_nanoseconds = 0;

    bool operator==(const FileIdentity&) const = default;
};

// Both give nothing, and errno, when it cannot be told. Of an open file:
std::optional<FileIdentity> identity_of(FileHandle file);

// Of what `path` leads to now:
std::optional<FileIdentity> identity_of(const std::filesystem::path& path);

} // namespace twofold
