// A bounded ring of the library's log lines.
#include "model/library_log.h"

#include <ggml.h>
#include <llama.h>

#include <deque>
#include <mutex>
#include <utility>

namespace twofold {
namespace {

constexpr std::size_t kept_lines = 400;

std::mutex mutex;
std::deque<std::string> lines;
std::string partial;
std::string last_error;
ggml_log_level current_level = GGML_LOG_LEVEL_NONE;

void on_log(ggml_log_level level, const char* text, void*) {
    const std::scoped_lock lock(mutex);
    if (level != GGML_LOG_LEVEL_CONT)
        current_level = level;
    partial += text;
    std::size_t end = 0;
    while ((end = partial.find('\n')) != std::string::npos) {
        std::string line = partial.substr(0, end);
        partial.erase(0, end + 1);
        if (current_level == GGML_LOG_LEVEL_ERROR)
            last_error = line;
        lines.push_back(std::move(line));
        if (lines.size() > kept_lines)
            lines.pop_front();
    }
}

} // namespace

void capture_library_log() {
    llama_log_set(on_log, nullptr);
}

std::vector<std::string> library_log_tail(std::size_t count) {
    const std::scoped_lock lock(mutex);
    const std::size_t first = lines.size() > count ? lines.size() - count : 0;
    return {lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end()};
}

std::string take_last_library_error() {
    const std::scoped_lock lock(mutex);
    return std::exchange(last_error, {});
}

} // namespace twofold
