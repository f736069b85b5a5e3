// Finds idle memory by address, and restores it tensor by tensor.
#include "phase/carve_out.h"

#include "disk/aligned_memory.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace twofold {
namespace {

// Restoring plain weights needs no more memory than this; repacked ones need the whole tensor at once.
constexpr std::size_t restore_chunk = std::size_t{4} << 20;

} // namespace

CarveOut::CarveOut(const std::vector<std::filesystem::path>& decoder_files,
                   const std::vector<FileIdentity>& loaded, std::vector<IdleTensor> idle,
                   std::vector<ggml_tensor*> all, AddressSpace& space)
    : reader_(decoder_files), idle_(std::move(idle)), all_(std::move(all)), space_(space),
      worker_([this](const std::stop_token& stop) { work(stop); }) {
    std::erase_if(idle_, [](const IdleTensor& one) { return !overwritable(one.tensor); });
    for (std::size_t file = 0; file < reader_.file_count(); ++file) {
        if (file >= loaded.size() || reader_.identity(file) != loaded[file])
            throw Error("disk.file_changed", {{"path", decoder_files[file].string()}});
    }
}

CarveOut::~CarveOut() = default;

CarveOut::Span CarveOut::memory_of(const ggml_tensor* tensor) const {
    std::byte* begin = space_.address(tensor->buffer, tensor->data);
    return {begin, begin + allocated_size(tensor)};
}

std::vector<Region> CarveOut::pool(const ggml_backend_device* device) const {
    std::map<std::byte*, std::pair<std::byte*, bool>> by_address; // begin -> end, idle?
    for (const ggml_tensor* tensor : all_) {
        if (overwritable(tensor) && device_of(tensor) == device)
            by_address[memory_of(tensor).begin] = {memory_of(tensor).end, false};
    }
    for (const IdleTensor& one : idle_) {
        if (device_of(one.tensor) == device)
            by_address[memory_of(one.tensor).begin] = {memory_of(one.tensor).end, true};
    }
    std::vector<Region> regions;
    const auto add = [&](std::byte* begin, std::byte* end) {
        const auto mask = static_cast<std::uintptr_t>(slot_alignment - 1);
        const std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(begin) + mask) & ~mask;
        const std::uintptr_t last = reinterpret_cast<std::uintptr_t>(end) & ~mask;
        if (last > first)
            regions.push_back({reinterpret_cast<std::byte*>(first), last - first});
    };
    std::byte* begin = nullptr;
    std::byte* end = nullptr;
    for (const auto& [address, entry] : by_address) {
        const auto& [stop, is_idle] = entry;
        // A gap wider than the library's alignment padding may belong to somebody else.
        const bool joins = begin && is_idle && address >= end && address - end < 256;
        if (!joins && begin) {
            add(begin, end);
            begin = nullptr;
        }
        if (is_idle) {
            begin = begin ? begin : address;
            end = stop;
        }
    }
    if (begin)
        add(begin, end);
    // Large regions first: fewer pieces, fewer decoder weights to restore.
    std::ranges::sort(regions, [](const Region& a, const Region& b) { return a.size > b.size; });
    return regions;
}

void CarveOut::lend(const std::vector<std::vector<Region>>& slots) {
    const std::scoped_lock lock(mutex_);
    lent_.clear();
    retired_.assign(slots.size(), false);
    for (const IdleTensor& one : idle_) {
        const Span memory = memory_of(one.tensor);
        Lent lent{.idle = one, .slots = {}};
        for (std::size_t slot = 0; slot < slots.size(); ++slot) {
            if (std::ranges::any_of(slots[slot], [&](const Region& region) {
                    return region.begin < memory.end && region.begin + region.size > memory.begin;
                }))
                lent.slots.push_back(slot);
        }
        if (!lent.slots.empty())
            lent_.push_back(std::move(lent));
    }
}

std::uint64_t CarveOut::lent_bytes() const {
    std::uint64_t total = 0;
    for (const Lent& lent : lent_)
        total += lent.idle.bytes.size;
    return total;
}

void CarveOut::overwrite() {
    restore();
    reader_.check_unwritten();
    const std::scoped_lock lock(mutex_);
    std::fill(retired_.begin(), retired_.end(), false);
    for (Lent& lent : lent_)
        lent.missing = true;
}

void CarveOut::enqueue(std::size_t index) {
    if (lent_[index].missing && !lent_[index].queued) {
        lent_[index].queued = true;
        queue_.push_back(index);
        changed_.notify_all();
    }
}

void CarveOut::retire(std::size_t slot) {
    const std::scoped_lock lock(mutex_);
    if (slot >= retired_.size())
        return;
    if (retired_[slot])
        return;
    retired_[slot] = true;
    for (std::size_t i = 0; i < lent_.size(); ++i) {
        if (std::ranges::all_of(lent_[i].slots, [&](std::size_t s) { return retired_[s]; }))
            enqueue(i);
    }
}

void CarveOut::restore() {
    std::unique_lock lock(mutex_);
    failure_ = nullptr;
    for (std::size_t i = 0; i < lent_.size(); ++i)
        enqueue(i);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
    if (failure_)
        std::rethrow_exception(std::exchange(failure_, nullptr));
}

bool CarveOut::intact() const {
    const std::scoped_lock lock(mutex_);
    return std::ranges::none_of(lent_, [](const Lent& lent) { return lent.missing; });
}

double CarveOut::restore_seconds() const {
    const std::scoped_lock lock(mutex_);
    return restore_seconds_;
}

// Repacking would start a second OpenMP team on this thread. OpenMP then counts more threads than cores and
// makes the first team sleep at every barrier, for good: decoding would be several times slower.
void CarveOut::stay_single_threaded() {
    using SetThreads = void (*)(int);
    if (const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")))
        set(1);
}

void CarveOut::work(const std::stop_token& stop) {
    stay_single_threaded();
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
        const std::size_t index = queue_.front();
        queue_.pop_front();
        busy_ = true;
        const IdleTensor idle = lent_[index].idle;
        lock.unlock();
        const auto started = FileReader::Clock::now();
        std::exception_ptr failure;
        try {
            put_back(idle);
        } catch (...) {
            failure = std::current_exception();
        }
        const std::chrono::duration<double> spent = FileReader::Clock::now() - started;
        lock.lock();
        restore_seconds_ += spent.count();
        lent_[index].queued = false;
        lent_[index].missing = failure != nullptr;
        if (failure && !failure_)
            failure_ = failure;
        busy_ = false;
        changed_.notify_all();
    }
}

void CarveOut::put_back(const IdleTensor& idle) {
    reader_.check_unwritten();
    const bool on_device = device_of(idle.tensor) != nullptr;
    const bool whole = !on_device && !ggml_backend_buffer_is_host(idle.tensor->buffer); // to be rearranged
    const std::size_t chunk = whole ? idle.bytes.size : std::min(restore_chunk, idle.bytes.size);
    const std::size_t capacity =
        (chunk + 2 * direct_alignment) / direct_alignment * direct_alignment + direct_alignment;
    const AlignedBytes staging = aligned_bytes(direct_alignment, capacity);
    if (!staging)
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(capacity)}});
    for (std::size_t done = 0; done < idle.bytes.size; done += chunk) {
        const std::size_t size = std::min(chunk, idle.bytes.size - done);
        const std::uint64_t offset = idle.bytes.offset + done;
        std::byte* bytes = staging.get() + offset % direct_alignment;
        reader_.wait(
            reader_.submit({{.file = idle.bytes.file, .offset = offset, .size = size, .dst = bytes}}));
        ggml_backend_tensor_set(idle.tensor, bytes, done, size);
    }
    if (on_device)
        clear_padding(idle.tensor);
}

} // namespace twofold
