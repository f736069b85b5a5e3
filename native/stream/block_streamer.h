// A ring of slots: loads blocks from disk ahead of the compute that uses them, pass after pass.
#pragma once

#include "disk/file_reader.h"
#include "stream/uploader.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace twofold {

// The reads that fill `slot` with `block`. Called with the streamer locked: must not call it back.
using SegmentsOf = std::function<std::vector<Segment>(std::size_t block, std::size_t slot)>;

// What happened when, in seconds since begin().
struct StreamEvent {
    enum class Kind {
        load,   // bytes on their way from the disk
        upload, // bytes on their way from host memory to a device
        wait,   // the owner had nothing to compute with
        hold,   // acquire() to release(): the block computes
    };
    Kind kind;
    std::size_t pass, block;
    double start, end;
};

struct StreamStats {
    std::uint64_t blocks = 0; // acquired
    std::uint64_t bytes = 0;  // of these blocks, alignment excluded
    double load_seconds = 0;  // summed over blocks
    double upload_seconds = 0;
    double wait_seconds = 0;
    std::uint64_t waits = 0; // acquires that found their block still on its way
};

// Streams `blocks` blocks through `slots` slots. Load g of a run (g = pass * blocks + block) goes to slot
// g % slots and is queued once load g - slots has been released, so that up to `slots` loads are queued and
// the next pass's first blocks load while the last ones of this pass compute. The reader writes straight into
// the slots, unless an uploader says otherwise: then it writes to one of `slots` staging buffers as soon as
// that is copied, and a thread of the streamer copies it into the slot once that is released.
//
//     streamer.begin(passes);
//     for each pass, for each block: slot = streamer.acquire(block); ...compute...; streamer.release(block);
//     streamer.finish();
//
// One owner thread calls all members but cancel(), which any thread may call. After an Error the owner calls
// cancel() (or the destructor does, or the next begin()) and the streamer can begin() again.
class BlockStreamer {
  public:
    // `reader` and `uploader` must outlive the streamer. `segments` is asked for blocks that go directly
    // into their slots. `trace_limit`: events kept a run, 0 for none.
    BlockStreamer(FileReader& reader, std::size_t blocks, std::size_t slots, SegmentsOf segments,
                  std::size_t trace_limit = 0, Uploader* uploader = nullptr);
    ~BlockStreamer();
    BlockStreamer(const BlockStreamer&) = delete;
    BlockStreamer& operator=(const BlockStreamer&) = delete;

    // Starts loading. From here on the slots belong to the streamer. Clears the statistics of the last run.
    // Throws "disk.file_changed", and what FileReader::submit throws.
    void begin(std::size_t passes);

    // Waits for the next block's bytes and returns its slot; of an uploaded block, until its copy has been
    // given to the device, which computes with it no earlier. Up to `slots` blocks may be held at a time.
    // Throws the load's Error, the uploader's; "stream.cancelled"; "stream.order" (expected, or -1 for none;
    // got; held) for any other block, or where all slots are held.
    std::size_t acquire(std::size_t block);

    // The oldest block held is no longer read by anyone: its slot may be overwritten. Does nothing after
    // cancel(). Throws "stream.order".
    void release(std::size_t block);

    // Whether this run will not write to `slot` any more and its last block has been released: its memory may
    // be put to another use while the last blocks compute. Ask after each release(). True while nothing runs;
    // after a cancel() it tells no more than before, since all slots are free once that has returned.
    [[nodiscard]] bool slot_retired(std::size_t slot) const;

    // Ends a run: on return nothing writes to any slot. Throws "stream.incomplete" (expected, got) where
    // blocks were left out, "stream.cancelled", and "disk.file_changed" where a file was rewritten meanwhile.
    void finish();

    // Ends a run at any point and wakes an acquire() at once; on return nothing writes to any slot (see
    // FileReader::cancel; a copy that has begun is waited for). Without a run it does nothing: it does not
    // prevent the next begin().
    void cancel();

    [[nodiscard]] StreamStats stats() const;
    [[nodiscard]] std::vector<StreamEvent> events() const;

  private:
    using Clock = FileReader::Clock;

    enum class State { idle, running, cancelled };

    struct Arrival { // of an uploaded block
        FileReader::JobReport read;
        bool read_from_disk = false;
    };

    void upload_blocks(const std::stop_token& stop);
    void upload(std::uint64_t load, std::unique_lock<std::mutex>& lock);
    FileReader::JobReport await_read(std::uint64_t load);
    void await_upload(std::uint64_t load, std::unique_lock<std::mutex>& lock);
    [[nodiscard]] Route route(std::uint64_t load) const;

    // These four with mutex_ held.
    void load_ahead();
    [[nodiscard]] bool may_load(std::uint64_t load) const;
    void trace(StreamEvent::Kind kind, std::uint64_t load, Clock::time_point start, Clock::time_point end);
    [[noreturn]] void refuse(std::uint64_t expected_load, std::size_t block) const;

    FileReader& reader_;
    const std::size_t blocks_, slots_;
    const SegmentsOf segments_;
    const std::size_t trace_limit_;
    Uploader* const uploader_;

    mutable std::mutex mutex_;
    std::condition_variable_any changed_; // between the owner and the upload thread
    State state_ = State::idle;
    std::uint64_t total_ = 0; // loads of this run
    std::uint64_t submitted_ = 0, acquired_ = 0, released_ = 0;
    std::uint64_t issued_ = 0;   // loads before this one have been given to the device, or need not be
    std::uint64_t uploaded_ = 0; // loads before this one have left their staging buffer
    bool uploading_ = false;     // the upload thread is at work on load uploaded_
    std::exception_ptr failure_; // the upload thread's
    std::vector<FileReader::Ticket> loads_;  // into slots
    std::vector<FileReader::Ticket> staged_; // into staging buffers
    std::vector<Arrival> arrivals_;          // by slot
    std::vector<Clock::time_point> held_since_;
    Clock::time_point begun_;
    StreamStats stats_;
    std::vector<StreamEvent> events_;
    std::jthread upload_thread_; // last: it stops before anything else goes
};

} // namespace twofold
