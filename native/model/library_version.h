// Which llama.cpp is loaded, and the refusal of any other than the pinned one.
#pragma once

#include <string>

namespace twofold {

// Commit of the loaded library, as its build recorded it (for example "0c1e570-dirty").
std::string library_commit();

// Throws Error "library.wrong_version" unless the loaded library is the pinned commit.
// The extension reads private structures, so any other version would corrupt memory.
void require_pinned_library();

} // namespace twofold
