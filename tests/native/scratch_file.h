// Files of known content for the tests of reading, and aligned memory to read them into.
#pragma once

#include "disk/aligned_memory.h"
#include "disk/file_reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace twofold::test {

// Every byte depends on its place, so that bytes from elsewhere never look right.
inline std::byte byte_at(std::uint64_t place) {
    std::uint64_t x = (place + 1) * 0x9E3779B97F4A7C15ULL;
    x ^= x >> 29;
    return static_cast<std::byte>((x * 0xBF58476D1CE4E5B9ULL) >> 56);
}

inline bool holds(const std::byte* memory, std::uint64_t offset, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        if (memory[i] != byte_at(offset + i)) {
            return false;
        }
    }
    return true;
}

// `size` bytes of byte_at, in `folder`; gone with the object.
class ScratchFile {
  public:
    explicit ScratchFile(std::size_t size,
                         const std::filesystem::path& folder = std::filesystem::temp_directory_path()) {
        std::random_device random;
        path_ = folder / ("twofold-test-" + std::to_string(random()) + "-" + std::to_string(random()));
        REQUIRE_FALSE(std::filesystem::exists(path_));
        std::vector<char> bytes(size);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = static_cast<char>(byte_at(i));
        }
        std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
        REQUIRE(std::filesystem::file_size(path_) == size);
    }
    ~ScratchFile() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

// Memory that starts at a multiple of the alignment, filled with a mark.
class AlignedMemory {
  public:
    static constexpr std::byte mark{0xA5};

    explicit AlignedMemory(std::size_t size)
        : size_((size + direct_alignment - 1) / direct_alignment * direct_alignment),
          data_(aligned_bytes(direct_alignment, size_)) {
        REQUIRE(data_);
        fill();
    }

    [[nodiscard]] std::byte* data() const { return data_.get(); }
    [[nodiscard]] std::size_t size() const { return size_; }
    void fill() { std::fill_n(data(), size_, mark); }
    [[nodiscard]] bool untouched(std::size_t from, std::size_t to) const {
        return std::all_of(data() + from, data() + to, [](std::byte byte) { return byte == mark; });
    }
    [[nodiscard]] bool untouched() const { return untouched(0, size_); }

  private:
    std::size_t size_;
    AlignedBytes data_;
};

// The code of the Error that `call` throws, or "" for none.
template <typename Call> std::string code_of(Call call) {
    try {
        call();
    } catch (const Error& error) {
        return error.code();
    }
    return "";
}

} // namespace twofold::test
