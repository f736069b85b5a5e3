// The list of kernels, by what the processor and the operating system offer.
#include "kernels/choice.h"

#include "error.h"
#include "kernels/cpu_features.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace twofold {

namespace {

std::vector<const Kernel*> runnable_kernels() {
    const CpuFeatures& cpu = cpu_features();
    std::vector<const Kernel*> found;
    const auto add = [&](bool can_run, const Kernel& kernel) {
        if (can_run)
            found.push_back(&kernel);
    };
#if defined(__x86_64__)
#ifndef _WIN32 // tiles are used where cpu_features.cpp can ask for the permission
    add(cpu.amx_bf16, kernel_amx);
#endif
    add(cpu.avx512_bf16, kernel_avx512_bf16);
    add(cpu.avx512, kernel_avx512);
    add(cpu.avx2, kernel_avx2);
#elif defined(__aarch64__)
    add(cpu.neon_bf16, kernel_neon_bf16);
    add(cpu.neon, kernel_neon);
#endif
    add(true, kernel_scalar);
    return found;
}

struct Usable {
    std::mutex mutex;
    std::vector<const Kernel*> kernels = runnable_kernels();
};

Usable& usable() {
    static Usable kernels;
    return kernels;
}

} // namespace

std::vector<const Kernel*> usable_kernels() {
    const std::scoped_lock lock(usable().mutex);
    return usable().kernels;
}

void disable_kernel(const std::string& name) {
    const std::scoped_lock lock(usable().mutex);
    std::erase_if(usable().kernels,
                  [&](const Kernel* kernel) { return name == kernel->name && kernel != &kernel_scalar; });
}

std::string kernel_names() {
    std::string names;
    for (const Kernel* kernel : usable_kernels())
        names += std::string(kernel->name) + ", ";
    return names + "library";
}

const Kernel* chosen_kernel() {
    const std::vector<const Kernel*> usable = usable_kernels();
    const char* forced = std::getenv("TWOFOLD_KERNEL");
    if (!forced || *forced == '\0')
        return usable.front();
    const std::string_view name = forced;
    if (name == "library")
        return nullptr;
    const auto found =
        std::ranges::find_if(usable, [&](const Kernel* kernel) { return name == kernel->name; });
    if (found != usable.end())
        return *found;
    throw Error("kernel.unknown", {{"wanted", std::string(name)}, {"usable", kernel_names()}});
}

Activations chosen_activations() {
    const char* wanted = std::getenv("TWOFOLD_ACTIVATIONS");
    const std::string_view name = wanted ? wanted : "";
    if (name.empty() || name == "bf16")
        return Activations::bf16;
    if (name == "a4")
        return Activations::a4;
    throw Error("kernel.unknown_activations", {{"wanted", std::string(name)}});
}

} // namespace twofold
