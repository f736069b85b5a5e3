// Reads byte ranges of files past the page cache, straight into their final place, many at a time.
#pragma once

#include "disk/file_identity.h"
#include "disk/system.h"
#include "error.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace twofold {

// `size` bytes at `offset` of file number `file` belong at `dst`.
//
// Nothing is staged, so dst % direct_alignment must equal offset % direct_alignment, and the memory from dst
// rounded down to dst + size rounded up (to direct_alignment) must belong to this segment alone: the reader
// fills it with the file's neighbouring bytes.
struct Segment {
    std::size_t file = 0;
    std::uint64_t offset = 0;
    std::size_t size = 0;
    std::byte* dst = nullptr;
};

// Same contract as positional_read; tests replace it to be slow, short, interrupted or broken.
using ReadAt =
    std::function<std::ptrdiff_t(FileHandle file, std::byte* dst, std::size_t size, std::int64_t offset)>;

struct FileReaderOptions {
    unsigned in_flight = 4;                  // requests on the disk at once, one thread each
    std::size_t request_bytes = 1024 * 1024; // largest request, a multiple of direct_alignment
    ReadAt read_at = {};                     // positional_read when empty
};

struct FileReaderStats {
    std::uint64_t bytes = 0; // as the disk delivered them, alignment included
    std::uint64_t requests = 0;
    double busy_seconds = 0; // time with at least one request on the disk
};

// Opens files once and serves jobs (lists of segments) in the order of their submission: the requests of one
// job go out before those of the next. All members may be called from any thread.
//
//     FileReader reader({path});
//     auto job = reader.submit({{.file = 0, .offset = 4096, .size = 100, .dst = memory}});
//     reader.wait(job);
class FileReader {
  public:
    struct Job;
    using Ticket = std::shared_ptr<Job>;
    using Clock = std::chrono::steady_clock;

    struct JobReport {
        std::uint64_t bytes = 0; // as asked for, alignment excluded
        Clock::time_point started, finished;
    };

    // Throws Error "disk.open_failed" (path, reason).
    explicit FileReader(const std::vector<std::filesystem::path>& paths, FileReaderOptions options = {});
    // Drops jobs that have not been served and joins the threads.
    ~FileReader();
    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

    [[nodiscard]] std::size_t file_count() const { return files_.size(); }
    [[nodiscard]] std::uint64_t file_size(std::size_t file) const;
    // False where the file system refuses direct reads; they then go through the page cache.
    [[nodiscard]] bool direct(std::size_t file) const;

    // Throws Error "disk.unaligned" (path, offset) where a segment breaks its contract.
    [[nodiscard]] Ticket submit(const std::vector<Segment>& segments);
    // True once wait() would not block.
    [[nodiscard]] bool ready(const Ticket& job) const;
    // Blocks until all bytes are in place. Throws the job's Error, when no thread touches its memory any
    // more: "disk.read_failed" (path, offset, wanted, reason), "disk.short_read" (path, offset, wanted, got);
    // or, at once, "disk.cancelled".
    JobReport wait(const Ticket& job);
    // Returns when no thread touches the job's memory any more. Requests already on the disk are waited for,
    // since the kernel would write to the memory regardless: milliseconds, unless the drive itself hangs.
    // A job that has been served stays as it is.
    void cancel(const Ticket& job);

    // Throws Error "disk.file_changed" (path) where a path no longer leads to the file as it was opened.
    void check_unchanged() const;
    // Throws Error "disk.file_changed" (path) where an opened file was written to or cut short. Weaker than
    // check_unchanged(): its path may lead elsewhere by now, the bytes are still those of the file as opened.
    void check_unwritten() const;
    // The file as it was opened.
    [[nodiscard]] FileIdentity identity(std::size_t file) const;

    [[nodiscard]] FileReaderStats stats() const;

  private:
    struct File;
    struct Request;

    void work(const std::stop_token& stop);
    void read(const Request& request);
    static bool settled(const Job& job);

    std::vector<std::unique_ptr<File>> files_;
    FileReaderOptions options_;

    mutable std::mutex mutex_;
    std::condition_variable_any work_changed_; // workers wait for requests
    std::condition_variable_any job_changed_;  // callers wait for jobs
    std::deque<Ticket> queue_;                 // jobs with requests not yet taken
    FileReaderStats stats_;
    unsigned busy_ = 0;
    Clock::time_point busy_since_;

    std::vector<std::jthread> workers_; // last: they stop before anything else goes
};

} // namespace twofold
