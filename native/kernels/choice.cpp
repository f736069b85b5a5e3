// The list of kernels, by what the processor and the operating system offer.
#include "kernels/choice.h"

#include "error.h"
#include "kernels/cpu_features.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace twofold {

const std::vector<const Kernel*>& usable_kernels() {
    static const std::vector<const Kernel*> usable = [] {
        const CpuFeatures& cpu = cpu_features();
        std::vector<const Kernel*> found;
        const auto add = [&](bool can_run, const Kernel& kernel) {
            if (can_run)
                found.push_back(&kernel);
        };
#if defined(__x86_64__)
        add(cpu.amx_bf16, kernel_amx);
        add(cpu.avx512_bf16, kernel_avx512_bf16);
        add(cpu.avx512, kernel_avx512);
        add(cpu.avx2, kernel_avx2);
#elif defined(__aarch64__)
        add(cpu.neon_bf16, kernel_neon_bf16);
        add(cpu.neon, kernel_neon);
#endif
        add(true, kernel_scalar);
        return found;
    }();
    return usable;
}

const Kernel* chosen_kernel() {
    const std::vector<const Kernel*>& usable = usable_kernels();
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
    std::string names;
    for (const Kernel* kernel : usable)
        names += std::string(kernel->name) + ", ";
    throw Error("kernel.unknown", {{"wanted", std::string(name)}, {"usable", names + "library"}});
}

} // namespace twofold
