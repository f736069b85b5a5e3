// Keeps the library's recent log lines, so that a failed call can say why.
#pragma once

#include <string>
#include <vector>

namespace twofold {

// Routes the library's log here, once for the process. Nothing is printed, unless the library aborts:
// then its last lines go to stderr.
void capture_library_log();

// The most recent lines, oldest first; at most `count`.
std::vector<std::string> library_log_tail(std::size_t count);

// The last error line since the previous call, empty when there was none.
std::string take_last_library_error();

} // namespace twofold
