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
                             std::size_t trace_limit, Uploader* uploader)
    : reader_(reader), blocks_(blocks), slots_(slots), segments_(std::move(segments)),
      trace_limit_(trace_limit), uploader_(uploader), loads_(slots), staged_(slots), arrivals_(slots),
      held_since_(slots) {
    if (blocks == 0 || slots == 0) {
        throw Error("stream.empty", {{"blocks", static_cast<std::int64_t>(blocks)},
                                     {"slots", static_cast<std::int64_t>(slots)}});
    }
    if (uploader_ != nullptr) {
        upload_thread_ = std::jthread([this](const std::stop_token& stop) { upload_blocks(stop); });
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
    submitted_ = acquired_ = released_ = issued_ = uploaded_ = 0;
    failure_ = nullptr;
    state_ = State::running;
    load_ahead();
}

Route BlockStreamer::route(std::uint64_t load) const {
    return uploader_ != nullptr ? uploader_->route(load % blocks_) : Route::direct;
}

bool BlockStreamer::may_load(std::uint64_t load) const {
    // What the load overwrites is a slot, or a staging buffer.
    return load < slots_ + (route(load) == Route::direct ? released_ : uploaded_);
}

void BlockStreamer::load_ahead() {
    while (submitted_ < total_ && may_load(submitted_)) {
        const std::size_t slot = submitted_ % slots_;
        const std::size_t block = submitted_ % blocks_;
        switch (route(submitted_)) {
        case Route::direct:
            loads_[slot] = reader_.submit(segments_(block, slot));
            break;
        case Route::staged:
            staged_[slot] = reader_.submit(uploader_->staging_reads(block, slot));
            break;
        case Route::from_host:
            staged_[slot] = nullptr;
            break;
        }
        ++submitted_;
    }
    changed_.notify_all();
}

void BlockStreamer::upload_blocks(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] {
        return state_ == State::running && failure_ == nullptr && uploaded_ < submitted_;
    })) {
        uploading_ = true;
        try {
            if (route(uploaded_) != Route::direct) {
                upload(uploaded_, lock);
            }
            issued_ = ++uploaded_;
            if (state_ == State::running) {
                load_ahead();
            }
        } catch (...) {
            if (!lock.owns_lock()) {
                lock.lock();
            }
            failure_ = std::current_exception();
            lock.unlock();
            uploader_->drain();
            lock.lock();
        }
        uploading_ = false;
        changed_.notify_all();
    }
}

// Holds `lock` on return, though not all the time.
void BlockStreamer::upload(std::uint64_t load, std::unique_lock<std::mutex>& lock) {
    const std::size_t slot = load % slots_;
    const FileReader::Ticket read = staged_[slot];
    lock.unlock();
    Arrival arrival;
    if (read) {
        arrival = {reader_.wait(read), true};
    }
    lock.lock();
    changed_.wait(lock, [&] { return state_ != State::running || load < slots_ + released_; });
    if (state_ != State::running) {
        throw Error("stream.cancelled");
    }
    lock.unlock();
    const auto start = Clock::now();
    uploader_->upload(load % blocks_, slot);
    lock.lock();
    arrivals_[slot] = arrival;
    issued_ = load + 1;
    changed_.notify_all();
    lock.unlock();
    uploader_->settle(slot);
    const auto end = Clock::now();
    lock.lock();
    stats_.upload_seconds += seconds(end - start);
    trace(StreamEvent::Kind::upload, load, start, end);
}

FileReader::JobReport BlockStreamer::await_read(std::uint64_t load) {
    FileReader::Ticket read;
    {
        const std::lock_guard lock(mutex_);
        read = loads_[load % slots_];
    }
    return reader_.wait(read);
}

void BlockStreamer::await_upload(std::uint64_t load, std::unique_lock<std::mutex>& lock) {
    changed_.wait(lock, [&] { return issued_ > load || failure_ != nullptr || state_ != State::running; });
    if (issued_ <= load && failure_ != nullptr && state_ == State::running) {
        std::rethrow_exception(failure_);
    }
}

std::size_t BlockStreamer::acquire(std::size_t block) {
    std::unique_lock lock(mutex_);
    if (state_ == State::cancelled) {
        throw Error("stream.cancelled");
    }
    // A load further than `slots` ahead of the releases would need a slot that is held.
    if (state_ == State::idle || acquired_ == total_ || acquired_ >= released_ + slots_ ||
        block != acquired_ % blocks_) {
        refuse(acquired_, block);
    }
    const std::uint64_t load = acquired_;
    const std::size_t slot = load % slots_;
    const bool direct = route(load) == Route::direct;
    const bool waits = direct ? !reader_.ready(loads_[slot]) : issued_ <= load;
    const auto start = Clock::now();
    Arrival arrival;
    try {
        if (direct) {
            lock.unlock();
            arrival = {await_read(load), true};
            lock.lock();
        } else {
            await_upload(load, lock);
            arrival = arrivals_[slot];
        }
    } catch (const Error& error) {
        // Only this streamer cancels its loads.
        throw error.code() == "disk.cancelled" ? Error("stream.cancelled") : error;
    }
    const auto now = Clock::now();

    if (state_ != State::running) {
        throw Error("stream.cancelled");
    }
    ++stats_.blocks;
    if (arrival.read_from_disk) {
        stats_.bytes += arrival.read.bytes;
        stats_.load_seconds += seconds(arrival.read.finished - arrival.read.started);
        trace(StreamEvent::Kind::load, load, arrival.read.started, arrival.read.finished);
    }
    if (waits) {
        ++stats_.waits;
        stats_.wait_seconds += seconds(now - start);
        trace(StreamEvent::Kind::wait, load, start, now);
    }
    ++acquired_;
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
    load_ahead();
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
        loads.insert(loads.end(), staged_.begin(), staged_.end());
    }
    changed_.notify_all();
    for (const auto& load : loads) {
        if (load) {
            reader_.cancel(load);
        }
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !uploading_; });
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
