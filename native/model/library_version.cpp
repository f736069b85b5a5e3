// Compares the loaded library's commit with the one this extension was compiled against.
#include "model/library_version.h"

#include "error.h"

#include <ggml.h>

#include <string_view>

namespace twofold {

std::string library_commit() {
    return ggml_commit();
}

void require_pinned_library() {
    // The library records an abbreviated hash, possibly with a "-dirty" suffix.
    const std::string commit = library_commit();
    const std::string_view hash = std::string_view(commit).substr(0, commit.find('-'));
    const std::string_view wanted = TWOFOLD_LLAMA_COMMIT;
    if (hash.size() < 7 || !(wanted.starts_with(hash) || hash.starts_with(wanted)))
        throw Error("library.wrong_version", {{"found", commit},
                                              {"wanted", std::string(wanted)},
                                              {"wanted_package", std::string(TWOFOLD_LLAMA_VERSION)}});
}

} // namespace twofold
