// Takes a file out of the page cache, so that a benchmark's next read comes from the disk.
#pragma once

#include <filesystem>

namespace twofold {

// Writes the file's pending data first, as only clean pages can go; pages that a process has mapped stay.
// Throws Error "disk.open_failed" or "disk.sync_failed" (path, reason).
void drop_from_page_cache(const std::filesystem::path& path);

} // namespace twofold
