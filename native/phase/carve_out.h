// Lends the memory of decoder weights that prefill does not read, and puts the weights back.
//
// Restored bytes come from the decoder's file and go through the library, which repacks them where it had
// repacked them at load. Restoration runs in the background as soon as a slot is no longer needed.
#pragma once

#include "disk/file_reader.h"
#include "phase/device_memory.h"
#include "stream/slot_layout.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct ggml_backend_device;
struct ggml_tensor;

namespace twofold {

// A decoder weight that prefill does not read, and where its bytes are on disk.
struct IdleTensor {
    ggml_tensor* tensor = nullptr;
    FileRange bytes;
};

class CarveOut {
  public:
    // `all` are the decoder's tensors, idle or not: memory between two idle ones is lent only when none of
    // them lies there. `loaded` are the files that the weights came from: throws Error "disk.file_changed"
    // when `decoder_files` lead to others by now, "disk.open_failed". Regions are in `space`, which must
    // outlive the carve-out.
    CarveOut(const std::vector<std::filesystem::path>& decoder_files, const std::vector<FileIdentity>& loaded,
             std::vector<IdleTensor> idle, std::vector<ggml_tensor*> all, AddressSpace& space);
    ~CarveOut();
    CarveOut(const CarveOut&) = delete;
    CarveOut& operator=(const CarveOut&) = delete;

    // Whole pages that may be lent in a device's memory (null: the host's), the largest regions first; none
    // when the weights are in a file mapping.
    [[nodiscard]] std::vector<Region> pool(const ggml_backend_device* device) const;

    // Fixes which weights each slot will overwrite.
    void lend(const std::vector<std::vector<Region>>& slots);

    [[nodiscard]] bool lent() const { return !lent_.empty(); }
    // Bytes of decoder weights that a prefill overwrites.
    [[nodiscard]] std::uint64_t lent_bytes() const;

    // Slots are about to be written: from here the weights under them are gone. Throws Error
    // "disk.file_changed" while they are still whole when they could not be put back.
    void overwrite();
    // No read and no compute touches `slot` any more in this prefill; restoring may begin.
    void retire(std::size_t slot);
    // Puts back whatever is still missing and returns when every weight is whole. Throws the disk's Error;
    // the weights stay marked as missing then, and a later call tries again.
    void restore();
    // False from overwrite() until restore() or the background has put back the last weight.
    [[nodiscard]] bool intact() const;
    // Seconds spent reading and repacking so far.
    [[nodiscard]] double restore_seconds() const;

  private:
    struct Lent {
        IdleTensor idle;
        std::vector<std::size_t> slots;
        bool missing = false;
        bool queued = false;
    };

    struct Span {
        std::byte* begin;
        std::byte* end;
    };
    [[nodiscard]] Span memory_of(const ggml_tensor* tensor) const;

    static void stay_single_threaded();
    void work(const std::stop_token& stop);
    void put_back(const IdleTensor& idle);
    void enqueue(std::size_t index);

    FileReader reader_;
    std::vector<IdleTensor> idle_;
    std::vector<ggml_tensor*> all_;
    AddressSpace& space_;

    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<Lent> lent_;
    std::vector<bool> retired_;
    std::deque<std::size_t> queue_;
    bool busy_ = false;
    std::exception_ptr failure_;
    double restore_seconds_ = 0;
    std::jthread worker_; // last: it stops before anything else goes
};

} // namespace twofold
