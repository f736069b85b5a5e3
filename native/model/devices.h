// The devices that the library has registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace twofold {

struct DeviceFacts {
    std::string name; // "CUDA0", "Vulkan0", "CPU"
    std::string description;
    std::string backend; // "CUDA", "Vulkan", "CPU"
    std::string kind;    // "cpu", "gpu", "igpu" (shares the host's memory), "accel", "meta"
    std::string bus_id;  // "0000:01:00.0"; empty when the backend does not tell
    std::uint64_t memory_free = 0;
    std::uint64_t memory_total = 0;
};

std::vector<DeviceFacts> list_devices();

} // namespace twofold
