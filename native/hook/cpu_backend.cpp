// Finds the file that the CPU backend was loaded from, and what it exports.
#include "hook/cpu_backend.h"

#include "error.h"

#include <traits.h>

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <memory>

// Of these two classes the backend exports the destructors and what goes with them, but a variant cannot be
// linked to: the extension has its own, which nothing outside it sees.
namespace ggml::cpu {
tensor_traits::~tensor_traits() = default;
extra_buffer_type::~extra_buffer_type() = default;
} // namespace ggml::cpu

namespace twofold {
namespace {

constexpr std::string_view prefix = "libggml-cpu-";
constexpr std::string_view suffix = ".so";

std::string loaded_variant; // written before any other thread computes

struct Close {
    void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Close>;

template <typename Function> void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (!function)
        throw Error("kernel.no_hook", {{"missing", std::string(name)}});
}

ggml_backend_dev_t cpu_device() {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

CpuBackend look_up() {
    ggml_backend_dev_t device = cpu_device();
    constexpr const char* listing = "ggml_backend_dev_get_extra_bufts";
    void* inside =
        device ? ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), listing) : nullptr;
    Dl_info info;
    if (!inside || dladdr(inside, &info) == 0)
        throw Error("kernel.no_hook", {{"missing", std::string(listing)}});
    // The backend copies its list of buffer types once. Making it do so now keeps ours out of the copy, which
    // offers places for weights.
    reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(inside)(device);

    void* library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        throw Error("kernel.no_hook", {{"missing", std::string(info.dli_fname)}});
    CpuBackend found{};
    find(library, "_Z39ggml_backend_cpu_get_extra_buffer_typesv", found.extra_buffer_types);
    find(library, "ggml_barrier", found.barrier);
    find(library, "ggml_threadpool_chunk_set", found.chunk_set);
    find(library, "ggml_threadpool_chunk_add", found.chunk_add);
    find(library, "ggml_cpu_fp16_to_fp32", found.fp16_to_fp32);
    find(library, "ggml_cpu_bf16_to_fp32", found.bf16_to_fp32);
    return found;
}

// Keeps the library quiet while it lives; that a variant was opened is nothing to print.
class Quiet {
  public:
    Quiet() {
        ggml_log_get(&before_, &data_);
        ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    }
    ~Quiet() { ggml_log_set(before_, data_); }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

  private:
    ggml_log_callback before_ = nullptr;
    void* data_ = nullptr;
};

std::string file_of(const std::string& folder, const std::string& variant) {
    return (std::filesystem::path(folder) / (std::string(prefix) + variant + std::string(suffix))).string();
}

int score_of(const std::string& file) {
    const Library library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
    if (!library)
        return 0;
    // One without a score runs anywhere; the library takes it if no other fits.
    const auto score = reinterpret_cast<int (*)()>(dlsym(library.get(), "ggml_backend_score"));
    return score ? score() : 1;
}

std::string names(const std::vector<CpuVariant>& variants, int least_score) {
    std::string list;
    for (const CpuVariant& variant : variants)
        if (variant.score >= least_score)
            list += (list.empty() ? "" : ", ") + variant.name;
    return list;
}

} // namespace

const CpuBackend& cpu_backend() {
    static const CpuBackend backend = look_up();
    return backend;
}

void set_cpu_threads(ggml_backend_t backend, int threads) {
    ggml_backend_dev_t device = ggml_backend_get_device(backend);
    if (!device || ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU)
        return;
    void* function =
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads");
    if (function)
        reinterpret_cast<ggml_backend_set_n_threads_t>(function)(backend, threads);
}

std::vector<CpuVariant> cpu_variants(const std::string& folder) {
    std::vector<CpuVariant> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string file = entry.path().filename().string();
        if (file.starts_with(prefix) && file.ends_with(suffix)) {
            const std::string name = file.substr(prefix.size(), file.size() - prefix.size() - suffix.size());
            found.push_back({.name = name, .score = score_of(entry.path().string())});
        }
    }
    std::ranges::sort(found, [](const CpuVariant& a, const CpuVariant& b) {
        return a.score != b.score ? a.score > b.score : a.name < b.name;
    });
    return found;
}

void load_cpu_backend(const std::string& folder, const std::string& wanted) {
    if (cpu_device())
        return;
    const std::vector<CpuVariant> variants = cpu_variants(folder);
    if (variants.empty() || variants.front().score <= 0)
        throw Error("cpu.no_variant", {{"folder", folder}});
    auto chosen = variants.begin();
    if (!wanted.empty()) {
        chosen = std::ranges::find(variants, wanted, &CpuVariant::name);
        if (chosen == variants.end())
            throw Error("cpu.unknown_variant", {{"name", wanted}, {"known", names(variants, 0)}});
        if (chosen->score <= 0)
            throw Error("cpu.unfit_variant", {{"name", wanted}, {"fit", names(variants, 1)}});
    }
    const Quiet quiet;
    if (!ggml_backend_load(file_of(folder, chosen->name).c_str()))
        throw Error("cpu.no_variant", {{"folder", folder}});
    loaded_variant = chosen->name;
}

std::string cpu_variant() {
    return loaded_variant;
}

} // namespace twofold
