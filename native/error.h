// The native engine's one exception: a searchable code and facts; words are made at the edge.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <variant>

namespace twofold {

// Code for example "disk.read_failed"; facts are paths, sizes and names that a sentence needs.
class Error : public std::exception {
  public:
    using Fact = std::variant<std::int64_t, double, std::string>;
    using Facts = std::map<std::string, Fact>;

    explicit Error(std::string code, Facts facts = {});

    [[nodiscard]] const std::string& code() const noexcept { return code_; }
    [[nodiscard]] const Facts& facts() const noexcept { return facts_; }
    [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

  private:
    std::string code_;
    Facts facts_;
    std::string what_;
};

} // namespace twofold
