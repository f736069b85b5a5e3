// Memory of devices: where a tensor is, one range of addresses for all buffers, and tensors' bytes with
// padding.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct ggml_backend_buffer;
struct ggml_backend_buffer_type;
struct ggml_backend_device;
struct ggml_tensor;

namespace twofold {

struct FreeBuffer {
    void operator()(ggml_backend_buffer* buffer) const noexcept;
};
using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;

// The device in whose own memory `tensor` is; null for the host's memory, pinned and rearranged included.
ggml_backend_device* device_of(const ggml_tensor* tensor);

// Whether the library allocated the tensor's memory for it, so that it may be overwritten: a file mapping
// must not be written to.
bool overwritable(const ggml_tensor* tensor);

// Bytes that a tensor takes in its buffer, padding included.
std::size_t allocated_size(const ggml_tensor* tensor);

// Allocates `size` bytes for weights. Throws Error "memory.out" (wanted, and the device's name or "").
Buffer allocate_weights(ggml_backend_buffer_type* type, std::size_t size);

// Writes zeros after the tensor's own bytes, as far as the device may read.
void clear_padding(const ggml_tensor* tensor);
// All of the tensor's bytes, padding included.
std::vector<std::byte> read_allocated(const ggml_tensor* tensor);

// A place in a buffer.
struct Spot {
    ggml_backend_buffer* buffer = nullptr;
    void* data = nullptr;
};

// A tensor of plain bytes over `size` bytes at `spot`; it belongs to nobody.
ggml_tensor bytes_at(const Spot& spot, std::size_t size);

// Buffers of devices may begin at the same address. Here each gets a range of its own, beyond what the host
// can address, with the same offsets in a page; the host's memory keeps its addresses.
class AddressSpace {
  public:
    std::byte* address(ggml_backend_buffer* buffer, const void* data);
    // Only for addresses in a range that address() has given, device memory that is.
    [[nodiscard]] Spot spot(const std::byte* address) const;

  private:
    std::map<ggml_backend_buffer*, std::size_t> numbers_;
    std::vector<ggml_backend_buffer*> buffers_;
};

} // namespace twofold
