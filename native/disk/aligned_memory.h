// Memory that starts at a multiple of an alignment.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace twofold {

struct AlignedDelete {
    std::align_val_t alignment;
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
};

using AlignedBytes = std::unique_ptr<std::byte, AlignedDelete>;

// `size` bytes, not initialised, at a multiple of `alignment`, a power of two; empty where memory is out.
inline AlignedBytes aligned_bytes(std::size_t alignment, std::size_t size) {
    const std::align_val_t aligned{alignment};
    return {static_cast<std::byte*>(::operator new(size, aligned, std::nothrow)), {aligned}};
}

} // namespace twofold
