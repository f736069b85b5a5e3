// Copies blocks to devices on queues of their own, ordered by events before and after the blocks' compute.
//
// Each device has a second backend instance for copies. Where a device lacks asynchronous copies or events,
// copies are made at once by the upload thread; the caller's own order of calls is what keeps them apart
// then.
#pragma once

#include "phase/device_memory.h"
#include "stream/slot_layout.h"
#include "stream/uploader.h"

#include <functional>
#include <memory>
#include <vector>

struct ggml_backend;
struct ggml_backend_event;
struct ggml_backend_sched;

namespace twofold {

// Called by the upload thread before each tensor's copy, with the block's number in the model; what it throws
// is the copy's failure. For tests.
using OnUpload = std::function<void(int block)>;

// One tensor of a block on its way: `size` bytes of the block's host memory, then zeros up to `allocated`.
struct UploadPiece {
    std::size_t size = 0;
    std::size_t allocated = 0;
    std::vector<Spot> slots;              // where it goes, by slot
    std::vector<const std::byte*> source; // where it comes from, by slot
};

class DeviceUploader final : public Uploader {
  public:
    // `asynchronous`: on a queue of its own, where the device can.
    DeviceUploader(std::size_t slots, bool asynchronous, OnUpload on_upload);
    ~DeviceUploader() override;
    DeviceUploader(const DeviceUploader&) = delete;
    DeviceUploader& operator=(const DeviceUploader&) = delete;

    struct Block {
        int number = 0;
        Route route = Route::direct;
        ggml_backend_device* device = nullptr;           // null for Route::direct
        std::vector<UploadPiece> pieces;                 // none for Route::direct
        std::vector<std::vector<Segment>> staging_reads; // by slot, for Route::staged
    };
    // The next block in streaming order. `scheduler` computes with it.
    void add(Block block, ggml_backend_sched* scheduler);

    // Whether copies to all devices run beside compute.
    [[nodiscard]] bool asynchronous() const;

    // For the owner's thread: what the device computes from here on waits for `block`'s copy into `slot`.
    void before_compute(std::size_t block, std::size_t slot);
    // The device's work so far includes all reads of `slot` by `block`.
    void after_compute(std::size_t block, std::size_t slot);

    [[nodiscard]] Route route(std::size_t block) const override { return blocks_[block].route; }
    [[nodiscard]] std::vector<Segment> staging_reads(std::size_t block, std::size_t slot) const override {
        return blocks_[block].staging_reads[slot];
    }
    void upload(std::size_t block, std::size_t slot) override;
    void settle(std::size_t slot) override;
    void drain() noexcept override;

  private:
    struct Device;

    Device& side(ggml_backend_device* device, ggml_backend_sched* scheduler);

    const std::size_t slots_;
    const bool asynchronous_;
    const OnUpload on_upload_;
    std::vector<std::unique_ptr<Device>> devices_;
    std::vector<Block> blocks_;
    std::vector<Device*> by_block_;
    std::vector<Device*> copying_; // by slot: the device that a copy is under way to
    std::vector<std::byte> zeros_; // as long as the longest padding
};

} // namespace twofold
