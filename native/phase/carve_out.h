// Lends the memory of decoder weights that prefill does not read, and puts the weights back.
//
// Restored bytes come from the decoder's file and go through the library, which repacks them where it had
// repacked them at load. Restoration runs in the background as soon as a slot is no longer needed.
#pragma once

#include "disk/file_reader.h"
#include "stream/slot_layout.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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
    // when `decoder_files` lead to others by now, "disk.open_failed".
    CarveOut(const std::vector<std::filesystem::path>& decoder_files, const std::vector<FileIdentity>& loaded,
             std::vector<IdleTensor> idle, const std::vector<ggml_tensor*>& all);
    ~CarveOut();
    CarveOut(const CarveOut&) = delete;
    CarveOut& operator=(const CarveOut&) = delete;

    // Whole pages that may be lent; empty when the weights are in a file mapping or on another device.
    [[nodiscard]] const std::vector<Region>& pool() const { return pool_; }

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

    static void stay_single_threaded();
    void work(const std::stop_token& stop);
    void put_back(const IdleTensor& idle);
    void enqueue(std::size_t index);

    FileReader reader_;
    std::vector<IdleTensor> idle_;
    std::vector<Region> pool_;

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
