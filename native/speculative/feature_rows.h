// The target's features of the latest tokens, for a drafter to catch up with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace twofold {

// Rows of `width` floats by position, without gaps; the oldest go when there are more than `most`.
class FeatureRows {
  public:
    explicit FeatureRows(std::size_t width = 0, std::size_t most = 1024) : width_(width), most_(most) {}

    [[nodiscard]] std::size_t width() const { return width_; }
    [[nodiscard]] std::size_t first() const { return first_; }
    [[nodiscard]] std::size_t end() const { return first_ + (width_ > 0 ? rows_.size() / width_ : 0); }
    // The rows of positions first to first + count.
    [[nodiscard]] std::span<const float> rows(std::size_t first, std::size_t count) const {
        return std::span(rows_).subspan((first - first_) * width_, count * width_);
    }

    // Makes `count` rows from `position` on, in place of any there or later, and gives them to be filled.
    std::span<float> add(std::size_t position, std::size_t count) {
        truncate(position);
        if (end() != position) { // a gap: what is before it cannot be followed
            rows_.clear();
            first_ = position;
        }
        const std::size_t kept = end() - first_;
        if (kept + count > 2 * most_ && kept > 0) { // half at a time, so that little is moved
            const std::size_t gone = std::min(kept, kept + count - most_);
            rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(gone * width_));
            first_ += gone;
        }
        rows_.resize(rows_.size() + count * width_);
        return std::span(rows_).last(count * width_);
    }
    void truncate(std::size_t length) {
        if (length < end())
            rows_.resize(length > first_ ? (length - first_) * width_ : 0);
        if (rows_.empty())
            first_ = length < first_ ? length : first_;
    }

  private:
    std::size_t width_;
    std::size_t most_;
    std::size_t first_ = 0;
    std::vector<float> rows_;
};

} // namespace twofold
