// An open file that closes itself.
#pragma once

#include "disk/system.h"

#include <utility>

namespace twofold {

class Descriptor {
  public:
    explicit Descriptor(FileHandle file = no_file) : file_(file) {}
    Descriptor(Descriptor&& other) noexcept : file_(std::exchange(other.file_, no_file)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(file_, other.file_);
        return *this;
    }
    ~Descriptor() {
        if (valid()) {
            close_file(file_);
        }
    }

    [[nodiscard]] FileHandle get() const { return file_; }
    [[nodiscard]] bool valid() const { return file_ != no_file; }

  private:
    FileHandle file_;
};

} // namespace twofold
