// Memory of devices through the library's public interface.
#include "phase/device_memory.h"

#include "disk/file_reader.h"
#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <cstdint>

namespace twofold {
namespace {

constexpr unsigned range_bits = 48; // more than any host or buffer has

std::uintptr_t first_page(ggml_backend_buffer* buffer) {
    return reinterpret_cast<std::uintptr_t>(ggml_backend_buffer_get_base(buffer)) / direct_alignment *
           direct_alignment;
}

} // namespace

void FreeBuffer::operator()(ggml_backend_buffer* buffer) const noexcept {
    ggml_backend_buffer_free(buffer);
}

ggml_backend_device* device_of(const ggml_tensor* tensor) {
    if (!tensor->buffer)
        return nullptr;
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(tensor->buffer);
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    const bool own = device && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU &&
                     !ggml_backend_buft_is_host(type);
    return own ? device : nullptr;
}

bool overwritable(const ggml_tensor* tensor) {
    if (!tensor->buffer || tensor->view_src)
        return false;
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(tensor->buffer);
    if (type == ggml_backend_cpu_buffer_type()) // which names no device
        return true;
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    if (!device)
        return false;
    return ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU || // rearranged weights
           type == ggml_backend_dev_buffer_type(device) || type == ggml_backend_dev_host_buffer_type(device);
}

std::size_t allocated_size(const ggml_tensor* tensor) {
    // Without its place, which may be only provisional.
    ggml_tensor bare = *tensor;
    bare.buffer = nullptr;
    bare.data = nullptr;
    return ggml_backend_buft_get_alloc_size(ggml_backend_buffer_get_type(tensor->buffer), &bare);
}

Buffer allocate_weights(ggml_backend_buffer_type* type, std::size_t size) {
    Buffer buffer(ggml_backend_buft_alloc_buffer(type, size));
    if (!buffer) {
        ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
        throw Error("memory.out", {{"wanted", static_cast<std::int64_t>(size)},
                                   {"device", std::string(device ? ggml_backend_dev_name(device) : "")}});
    }
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return buffer;
}

ggml_tensor bytes_at(const Spot& spot, std::size_t size) {
    ggml_tensor bytes{};
    bytes.type = GGML_TYPE_I8;
    bytes.buffer = spot.buffer;
    bytes.data = spot.data;
    bytes.ne[0] = static_cast<std::int64_t>(size);
    bytes.nb[0] = 1;
    for (int i = 1; i < GGML_MAX_DIMS; ++i) {
        bytes.ne[i] = 1;
        bytes.nb[i] = size;
    }
    return bytes;
}

void clear_padding(const ggml_tensor* tensor) {
    const std::size_t used = ggml_nbytes(tensor);
    const std::size_t size = allocated_size(tensor);
    if (size == used)
        return;
    ggml_tensor bytes = bytes_at({tensor->buffer, tensor->data}, size);
    const std::vector<std::byte> zeros(size - used);
    ggml_backend_tensor_set(&bytes, zeros.data(), used, zeros.size());
}

std::vector<std::byte> read_allocated(const ggml_tensor* tensor) {
    std::vector<std::byte> copy(allocated_size(tensor));
    const ggml_tensor bytes = bytes_at({tensor->buffer, tensor->data}, copy.size());
    ggml_backend_tensor_get(&bytes, copy.data(), 0, copy.size());
    return copy;
}

std::byte* AddressSpace::address(ggml_backend_buffer* buffer, const void* data) {
    ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
    ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
    const auto real = reinterpret_cast<std::uintptr_t>(data);
    if (!device || ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU ||
        ggml_backend_buft_is_host(type))
        return reinterpret_cast<std::byte*>(real);
    const auto [found, fresh] = numbers_.try_emplace(buffer, buffers_.size());
    if (fresh)
        buffers_.push_back(buffer);
    const auto range = (std::uintptr_t{found->second} + 1) << range_bits;
    return reinterpret_cast<std::byte*>(range + (real - first_page(buffer)));
}

Spot AddressSpace::spot(const std::byte* address) const {
    const auto value = reinterpret_cast<std::uintptr_t>(address);
    ggml_backend_buffer* buffer = buffers_.at((value >> range_bits) - 1);
    const std::uintptr_t offset = value & ((std::uintptr_t{1} << range_bits) - 1);
    return {buffer, reinterpret_cast<void*>(first_page(buffer) + offset)};
}

} // namespace twofold
