// Counts loads, acquires and releases of a run; the reader's threads do the waiting work.
#include "stream/block_streamer.h"

#include <algorithm>
#include <utility>

namespace twofold {

namespace {

double seconds(std::chrono::steady_clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

} // namespace

BlockStreamer::BlockStreamer(FileReader& reader, std::size_t blocks, std::size_t slots, SegmentsOf segments,
                             std::size_t trace_limit)
    : reader_(reader), blocks_(blocks), slots_(slots), segments_(std::move(segments)),
      trace_limit_(trace_limit), loads_(slots), held_since_(slots) {
    if (blocks == 0 || slots == 0) {
        throw Error("stream.empty", {{"blocks", static_cast<std::int64_t>(blocks)},
                                     {"slots", static_cast<std::int64_t>(slots)}});
    }
}

BlockStreamer::~BlockStreamer() {
    cancel();
}

void BlockStreamer::begin(std::size_t passes) {
    cancel();
    reader_.check_unchanged();
    const std::lock_guard lock(mutex_);
    stats_ = {};
    events_.clear();
    begun_ = Clock::now();
    total_ = static_cast<std::uint64_t>(passes) * blocks_;
    submitted_ = acquired_ = released_ = 0;
    state_ = State::running;
    while (submitted_ < std::min<std::uint64_t>(total_, slots_)) {
        load_next();
    }
}

void BlockStreamer::load_next() {
    const std::size_t slot = submitted_ % slots_;
    loads_[slot] = reader_.submit(segments_(submitted_ % blocks_, slot));
    ++submitted_;
}

std::size_t BlockStreamer::acquire(std::size_t block) {
    FileReader::Ticket load;
    {
        const std::lock_guard lock(mutex_);
        if (state_ == State::cancelled) {
            throw Error("stream.cancelled");
        }
        if (state_ == State::idle || acquired_ == submitted_ || block != acquired_ % blocks_) {
            refuse(acquired_, block);
        }
        load = loads_[acquired_ % slots_];
    }
    const bool waits = !reader_.ready(load);
    const auto start = Clock::now();
    FileReader::JobReport report;
    try {
        report = reader_.wait(load);
    } catch (const Error& error) {
        // Only this streamer cancels its loads.
        throw error.code() == "disk.cancelled" ? Error("stream.cancelled") : error;
    }
    const auto now = Clock::now();

    const std::lock_guard lock(mutex_);
    if (state_ != State::running) {
        throw Error("stream.cancelled");
    }
    ++stats_.blocks;
    stats_.bytes += report.bytes;
    stats_.load_seconds += seconds(report.finished - report.started);
    trace(StreamEvent::Kind::load, acquired_, report.started, report.finished);
    if (waits) {
        ++stats_.waits;
        stats_.wait_seconds += seconds(now - start);
        trace(StreamEvent::Kind::wait, acquired_, start, now);
    }
    const std::size_t slot = acquired_++ % slots_;
    held_since_[slot] = now;
    return slot;
}

void BlockStreamer::release(std::size_t block) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::cancelled) {
        return;
    }
    if (state_ == State::idle || released_ == acquired_ || block != released_ % blocks_) {
        refuse(released_, block);
    }
    trace(StreamEvent::Kind::hold, released_, held_since_[released_ % slots_], Clock::now());
    ++released_;
    if (submitted_ < total_) {
        load_next();
    }
}

bool BlockStreamer::slot_retired(std::size_t slot) const {
    const std::lock_guard lock(mutex_);
    if (state_ == State::idle || slot >= total_) {
        return true;
    }
    const std::uint64_t last_load = slot + (total_ - 1 - slot) / slots_ * slots_;
    return last_load < released_;
}

void BlockStreamer::finish() {
    State state{};
    std::uint64_t total = 0, released = 0;
    {
        const std::lock_guard lock(mutex_);
        state = state_;
        total = total_;
        released = released_;
    }
    cancel();
    {
        const std::lock_guard lock(mutex_);
        state_ = State::idle;
    }
    if (state == State::cancelled) {
        throw Error("stream.cancelled");
    }
    if (released != total) {
        throw Error("stream.incomplete", {{"expected", static_cast<std::int64_t>(total)},
                                          {"got", static_cast<std::int64_t>(released)}});
    }
    reader_.check_unchanged();
}

void BlockStreamer::cancel() {
    std::vector<FileReader::Ticket> loads;
    {
        const std::lock_guard lock(mutex_);
        if (state_ == State::running) {
            state_ = State::cancelled;
        }
        loads = loads_; // all of them, as another cancel() may still be waiting for some
    }
    for (const auto& load : loads) {
        if (load) {
            reader_.cancel(load);
        }
    }
}

StreamStats BlockStreamer::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

std::vector<StreamEvent> BlockStreamer::events() const {
    const std::lock_guard lock(mutex_);
    return events_;
}

void BlockStreamer::trace(StreamEvent::Kind kind, std::uint64_t load, Clock::time_point start,
                          Clock::time_point end) {
    if (events_.size() < trace_limit_) {
        events_.push_back({kind, static_cast<std::size_t>(load / blocks_),
                           static_cast<std::size_t>(load % blocks_), seconds(start - begun_),
                           seconds(end - begun_)});
    }
}

void BlockStreamer::refuse(std::uint64_t expected_load, std::size_t block) const {
    const bool any = state_ == State::running && expected_load < total_;
    throw Error("stream.order", {{"expected", any ? static_cast<std::int64_t>(expected_load % blocks_) : -1},
                                 {"got", static_cast<std::int64_t>(block)},
                                 {"held", static_cast<std::int64_t>(acquired_ - released_)}});
}

} // namespace twofold
