// Worker threads that issue aligned positional reads; the page cache serves where direct reads are refused.
#include "disk/file_reader.h"
#include "disk/descriptor.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

namespace twofold {

namespace {

std::string reason(int error) {
    return std::generic_category().message(error);
}

constexpr std::uint64_t round_down(std::uint64_t value) {
    return value / direct_alignment * direct_alignment;
}
constexpr std::uint64_t round_up(std::uint64_t value) {
    return round_down(value + direct_alignment - 1);
}

} // namespace

struct FileReader::File {
    std::filesystem::path path;
    std::atomic<FileHandle> handle = no_file; // the one to read by, with `direct` loaded first
    std::atomic<bool> direct = true;
    FileIdentity opened;

    explicit File(std::filesystem::path where) : path(std::move(where)) {
        descriptor_ = Descriptor(open_file(path, true));
        const bool refused = !descriptor_.valid() && errno == EINVAL;
        if (refused) {
            descriptor_ = Descriptor(open_file(path, false));
        }
        const auto identity = descriptor_.valid() ? identity_of(descriptor_.get()) : std::nullopt;
        if (!identity) {
            fail_to_open(reason(errno));
        }
        opened = *identity;
        handle = descriptor_.get();
        if (!is_regular_file(handle)) {
            fail_to_open("not a regular file");
        }
        if (refused || !direct_suits(handle)) {
            read_through_cache();
        }
    }

    void read_through_cache() {
        const std::lock_guard lock(switching_);
        if (!direct) {
            return;
        }
        const FileHandle other = through_cache(descriptor_.get());
        if (other == no_file) {
            fail_to_open(reason(errno));
        }
        if (other != descriptor_.get()) {
            cached_ = Descriptor(other); // another thread may still read by the first
        }
        handle = other;
        direct = false;
    }

  private:
    [[noreturn]] void fail_to_open(const std::string& why) const {
        throw Error("disk.open_failed", {{"path", path.string()}, {"reason", why}});
    }

    std::mutex switching_;
    Descriptor descriptor_;
    Descriptor cached_;
};

// One positional read: `size` bytes at `offset`, to `dst`.
struct FileReader::Request {
    File* file;
    std::uint64_t offset;
    std::size_t size;
    std::byte* dst;
};

struct FileReader::Job {
    std::vector<Request> requests; // of the bytes asked for; read() widens them for direct files
    std::size_t next = 0;          // first request that no worker has taken
    unsigned running = 0;          // requests in a worker's hands
    bool cancelled = false;
    std::optional<Error> error;
    JobReport report;
};

FileReader::FileReader(const std::vector<std::filesystem::path>& paths, FileReaderOptions options)
    : options_(std::move(options)) {
    options_.in_flight = std::max(1U, options_.in_flight);
    options_.request_bytes = std::max(direct_alignment, round_down(options_.request_bytes));
    if (!options_.read_at) {
        options_.read_at = positional_read;
    }
    for (const auto& path : paths) {
        files_.push_back(std::make_unique<File>(path));
    }
    for (unsigned i = 0; i < options_.in_flight; ++i) {
        workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
}

FileReader::~FileReader() {
    for (auto& worker : workers_) {
        worker.request_stop();
    }
}

std::uint64_t FileReader::file_size(std::size_t file) const {
    return static_cast<std::uint64_t>(files_.at(file)->opened.size);
}

bool FileReader::direct(std::size_t file) const {
    return files_.at(file)->direct;
}

FileReader::Ticket FileReader::submit(const std::vector<Segment>& segments) {
    auto job = std::make_shared<Job>();
    for (const auto& segment : segments) {
        File& file = *files_.at(segment.file);
        if (reinterpret_cast<std::uintptr_t>(segment.dst) % direct_alignment !=
            segment.offset % direct_alignment) {
            throw Error("disk.unaligned", {{"path", file.path.string()},
                                           {"offset", static_cast<std::int64_t>(segment.offset)}});
        }
        if (segment.size == 0) {
            continue;
        }
        job->report.bytes += segment.size;
        // Requests of equal size, so that none is a small rest; they meet at multiples of the alignment.
        const std::uint64_t start = round_down(segment.offset);
        const std::uint64_t end = segment.offset + segment.size;
        const std::uint64_t count = (end - start + options_.request_bytes - 1) / options_.request_bytes;
        const std::uint64_t step = round_up((end - start + count - 1) / count);
        for (std::uint64_t from = segment.offset; from < end;) {
            const std::uint64_t to = std::min(end, round_down(from) + step);
            job->requests.push_back({&file, from, to - from, segment.dst + (from - segment.offset)});
            from = to;
        }
    }
    const std::lock_guard lock(mutex_);
    if (job->requests.empty()) {
        job->report.started = job->report.finished = Clock::now();
    } else {
        queue_.push_back(job);
        work_changed_.notify_all();
    }
    return job;
}

bool FileReader::settled(const Job& job) {
    return job.cancelled || (job.running == 0 && job.next == job.requests.size());
}

bool FileReader::ready(const Ticket& job) const {
    const std::lock_guard lock(mutex_);
    return settled(*job);
}

FileReader::JobReport FileReader::wait(const Ticket& job) {
    std::unique_lock lock(mutex_);
    job_changed_.wait(lock, [&] { return settled(*job); });
    if (job->cancelled) {
        throw Error("disk.cancelled");
    }
    if (job->error) {
        throw Error(*job->error);
    }
    return job->report;
}

void FileReader::cancel(const Ticket& job) {
    std::unique_lock lock(mutex_);
    if (!settled(*job)) {
        job->cancelled = true;
        std::erase(queue_, job);
        job_changed_.notify_all();
    }
    job_changed_.wait(lock, [&] { return job->running == 0; });
}

void FileReader::check_unchanged() const {
    for (const auto& file : files_) {
        if (identity_of(file->path) != file->opened) {
            throw Error("disk.file_changed", {{"path", file->path.string()}});
        }
    }
}

void FileReader::check_unwritten() const {
    for (const auto& file : files_) {
        if (identity_of(file->handle) != file->opened) {
            throw Error("disk.file_changed", {{"path", file->path.string()}});
        }
    }
}

FileIdentity FileReader::identity(std::size_t file) const {
    return files_.at(file)->opened;
}

FileReaderStats FileReader::stats() const {
    const std::lock_guard lock(mutex_);
    FileReaderStats result = stats_;
    if (busy_ > 0) {
        result.busy_seconds += std::chrono::duration<double>(Clock::now() - busy_since_).count();
    }
    return result;
}

void FileReader::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (work_changed_.wait(lock, stop, [&] { return !queue_.empty(); }) && !stop.stop_requested()) {
        const Ticket job = queue_.front();
        const Request request = job->requests[job->next++];
        if (job->next == job->requests.size()) {
            queue_.pop_front();
        }
        ++job->running;
        const auto now = Clock::now();
        if (busy_++ == 0) {
            busy_since_ = now;
        }
        if (job->next == 1) {
            job->report.started = now;
        }

        lock.unlock();
        std::optional<Error> error;
        try {
            read(request);
        } catch (const Error& caught) {
            error = caught;
        }
        lock.lock();

        const auto then = Clock::now();
        if (--busy_ == 0) {
            stats_.busy_seconds += std::chrono::duration<double>(then - busy_since_).count();
        }
        --job->running;
        job->report.finished = then;
        if (error && !job->error) {
            job->error = std::move(error);
            job->next = job->requests.size();
            std::erase(queue_, job);
        }
        if (settled(*job)) {
            job_changed_.notify_all();
        }
    }
}

void FileReader::read(const Request& request) {
    File& file = *request.file;
    // Wanted are the bytes [head, size) of what is read: a direct read starts and ends at multiples of the
    // alignment, except at the end of the file, where it comes back short.
    std::size_t head = 0;
    std::size_t size = request.size;
    std::size_t room = request.size;
    const auto widen = [&](bool direct) {
        head = direct ? request.offset % direct_alignment : 0;
        size = head + request.size;
        room = direct ? round_up(size) : size;
    };
    bool direct = file.direct;
    widen(direct);
    std::size_t done = 0;
    while (done < size) {
        const std::size_t from = direct ? round_down(done) : done;
        const std::ptrdiff_t got = options_.read_at(file.handle, request.dst - head + from, room - from,
                                                    static_cast<std::int64_t>(request.offset - head + from));
        const int error = errno;
        const std::size_t end = got > 0 ? from + static_cast<std::size_t>(got) : 0;
        {
            const std::lock_guard lock(mutex_);
            ++stats_.requests;
            stats_.bytes += got > 0 ? static_cast<std::uint64_t>(got) : 0;
        }
        if (got < 0 && error == EINTR) {
            continue;
        }
        if (got < 0 && direct && (error == EINVAL || error == EOPNOTSUPP)) {
            file.read_through_cache();
            direct = false;
            widen(direct);
            done = 0;
            continue;
        }
        const auto where = static_cast<std::int64_t>(request.offset);
        const auto wanted = static_cast<std::int64_t>(request.size);
        if (got < 0) {
            throw Error("disk.read_failed",
                        {{"path", file.path.string()},
                         {"offset", where},
                         {"wanted", wanted},
                         {"got", static_cast<std::int64_t>(done > head ? done - head : 0)},
                         {"reason", reason(error)}});
        }
        if (end <= done) { // nothing new: the file ends here
            throw Error("disk.short_read",
                        {{"path", file.path.string()},
                         {"offset", where},
                         {"wanted", wanted},
                         {"got", static_cast<std::int64_t>(done > head ? done - head : 0)}});
        }
        done = end;
    }
}

} // namespace twofold
