// Windows: unbuffered handles, overlapped reads that are waited for.
#include "disk/file_identity.h"
#include "disk/system.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#ifndef NOMINMAX
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

namespace twofold {

namespace {

constexpr DWORD share_all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

HANDLE handle_of(FileHandle file) {
    return reinterpret_cast<HANDLE>(file);
}

int errno_of(DWORD error) {
    if (error == ERROR_INVALID_PARAMETER) {
        return EINVAL;
    }
    const auto condition = std::system_category().default_error_condition(static_cast<int>(error));
    return condition.category() == std::generic_category() ? condition.value() : EIO;
}

FileHandle opened(HANDLE handle) {
    if (handle == INVALID_HANDLE_VALUE) {
        errno = errno_of(GetLastError());
    }
    return reinterpret_cast<FileHandle>(handle);
}

DWORD reading_flags(bool direct) {
    // Reads of a handle that is not overlapped wait for each other.
    return FILE_FLAG_OVERLAPPED | (direct ? FILE_FLAG_NO_BUFFERING : FILE_FLAG_SEQUENTIAL_SCAN);
}

FileHandle open_again(FileHandle file, bool direct) {
    return opened(ReOpenFile(handle_of(file), GENERIC_READ, share_all, reading_flags(direct)));
}

// A thread waits for one read at a time.
class ReadEvent {
  public:
    ReadEvent() : event_(CreateEventW(nullptr, TRUE, FALSE, nullptr)) {}
    ~ReadEvent() { CloseHandle(event_); }
    ReadEvent(const ReadEvent&) = delete;
    ReadEvent& operator=(const ReadEvent&) = delete;
    [[nodiscard]] HANDLE get() const { return event_; }

  private:
    HANDLE event_;
};

} // namespace

FileHandle open_file(const std::filesystem::path& path, bool direct) {
    return opened(CreateFileW(path.c_str(), GENERIC_READ, share_all, nullptr, OPEN_EXISTING,
                              reading_flags(direct), nullptr));
}

void close_file(FileHandle file) {
    CloseHandle(handle_of(file));
}

bool is_regular_file(FileHandle file) {
    return GetFileType(handle_of(file)) == FILE_TYPE_DISK; // folders cannot be opened like files
}

// A file system that refuses does so when the file is opened.
bool direct_suits(FileHandle /*file*/) {
    return true;
}

FileHandle through_cache(FileHandle file) {
    return open_again(file, false);
}

std::ptrdiff_t positional_read(FileHandle file, std::byte* dst, std::size_t size, std::int64_t offset) {
    static const thread_local ReadEvent done;
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(offset);
    place.OffsetHigh = static_cast<DWORD>(static_cast<std::uint64_t>(offset) >> 32U);
    place.hEvent = done.get();
    const auto wanted = static_cast<DWORD>(std::min(size, std::size_t{1} << 30U));
    DWORD got = 0;
    if (ReadFile(handle_of(file), dst, wanted, nullptr, &place) == 0 && GetLastError() != ERROR_IO_PENDING) {
        const DWORD error = GetLastError();
        errno = errno_of(error);
        return error == ERROR_HANDLE_EOF ? 0 : -1;
    }
    if (GetOverlappedResult(handle_of(file), &place, &got, TRUE) == 0) {
        const DWORD error = GetLastError();
        errno = errno_of(error);
        return error == ERROR_HANDLE_EOF ? 0 : -1;
    }
    return static_cast<std::ptrdiff_t>(got);
}

// Opening a file for unbuffered reads makes the system write its pending data and drop its cached pages.
bool empty_cache(FileHandle file) {
    const FileHandle unbuffered = open_again(file, true);
    if (unbuffered == no_file) {
        return false;
    }
    close_file(unbuffered);
    return true;
}

// Windows has huge pages only for memory that is allocated as such, by a privilege that few accounts have.
void advise_huge_pages(std::byte* /*pages*/, std::size_t /*size*/) {}

std::optional<FileIdentity> identity_of(FileHandle file) {
    BY_HANDLE_FILE_INFORMATION facts{};
    if (GetFileInformationByHandle(handle_of(file), &facts) == 0) {
        errno = errno_of(GetLastError());
        return std::nullopt;
    }
    const auto joined = [](DWORD high, DWORD low) { return (std::uint64_t{high} << 32U) | low; };
    constexpr std::uint64_t ticks = 10'000'000; // in a second
    const std::uint64_t written =
        joined(facts.ftLastWriteTime.dwHighDateTime, facts.ftLastWriteTime.dwLowDateTime);
    return FileIdentity{
        .device = facts.dwVolumeSerialNumber,
        .number = joined(facts.nFileIndexHigh, facts.nFileIndexLow),
        .size = static_cast<std::int64_t>(joined(facts.nFileSizeHigh, facts.nFileSizeLow)),
        .written_seconds = static_cast<std::int64_t>(written / ticks),
        .written_nanoseconds = static_cast<std::int64_t>(written % ticks * 100),
    };
}

std::optional<FileIdentity> identity_of(const std::filesystem::path& path) {
    const FileHandle file = opened(
        CreateFileW(path.c_str(), 0, share_all, nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr));
    if (file == no_file) {
        return std::nullopt;
    }
    const std::optional<FileIdentity> identity = identity_of(file);
    close_file(file);
    return identity;
}

} // namespace twofold
