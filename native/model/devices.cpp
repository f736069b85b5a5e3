// Reads ggml's device registry.
#include "model/devices.h"

#include <ggml-backend.h>

#include <utility>

namespace twofold {
namespace {

std::string kind_name(enum ggml_backend_dev_type type) {
    switch (type) {
    case GGML_BACKEND_DEVICE_TYPE_CPU:
        return "cpu";
    case GGML_BACKEND_DEVICE_TYPE_GPU:
        return "gpu";
    case GGML_BACKEND_DEVICE_TYPE_IGPU:
        return "igpu";
    case GGML_BACKEND_DEVICE_TYPE_ACCEL:
        return "accel";
    default:
        return "meta";
    }
}

} // namespace

std::vector<DeviceFacts> list_devices() {
    std::vector<DeviceFacts> found;
    for (std::size_t index = 0; index < ggml_backend_dev_count(); ++index) {
        ggml_backend_dev_t device = ggml_backend_dev_get(index);
        ggml_backend_dev_props props{};
        ggml_backend_dev_get_props(device, &props);
        DeviceFacts facts;
        facts.name = ggml_backend_dev_name(device);
        facts.description = ggml_backend_dev_description(device);
        facts.backend = ggml_backend_reg_name(ggml_backend_dev_backend_reg(device));
        facts.kind = kind_name(ggml_backend_dev_type(device));
        facts.bus_id = props.device_id ? props.device_id : "";
        facts.memory_free = props.memory_free;
        facts.memory_total = props.memory_total;
        found.push_back(std::move(facts));
    }
    return found;
}

} // namespace twofold
