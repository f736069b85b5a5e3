// What a model and its context would allocate, found without allocating it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twofold {

struct MemoryQuestion {
    std::vector<std::string> paths; // one, or all parts of a split file in order
    std::uint32_t n_ctx = 0;        // 0: what the model was trained for
    std::uint32_t micro_batch = 512;
    std::int32_t n_gpu_layers = 0;
    std::vector<std::string> devices; // their names; empty for all that the library would take
    std::int32_t type_k = 1;          // ggml types of the cache; 1 is F16
    std::int32_t type_v = 1;
};

// Bytes in one kind of buffer.
struct MemoryPart {
    std::string buffer; // as the library names it: "CPU", "CUDA0", "CPU_REPACK"
    bool host = true;
    std::uint64_t weights = 0;
    std::uint64_t context = 0;
    std::uint64_t compute = 0;
};

// Reads the header only. Throws Error "model.load_failed", "context.failed" or "device.unknown". The library
// may also abort on a malformed file: ask in a process that may die.
std::vector<MemoryPart> estimate_memory(const MemoryQuestion& question);

} // namespace twofold
