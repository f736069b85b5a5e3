// A bounded ring of the library's log lines.
#include "model/library_log.h"

#include <ggml.h>
#include <llama.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <mutex>
#include <utility>

namespace twofold {
namespace {

constexpr std::size_t kept_lines = 400;
constexpr std::size_t lines_at_abort = 30;

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

// The library ends the process after this; what it said before would be lost with it.
void on_abort(const char* message) {
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (lock.owns_lock())
        for (std::size_t i = lines.size() - std::min(lines.size(), lines_at_abort); i < lines.size(); ++i)
            std::fprintf(stderr, "%s\n", lines[i].c_str());
    std::fprintf(stderr, "%s\n", message);
    std::fflush(stderr);
}

} // namespace

void capture_library_log() {
    llama_log_set(on_log, nullptr);
    ggml_set_abort_callback(on_abort);
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
