// CPUID, XGETBV and the kernel's permission for tiles on x86-64; auxiliary vector on Arm.
#include "kernels/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <cstdint>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace twofold {
namespace {

#if defined(__x86_64__)

constexpr bool bit(unsigned word, int index) {
    return ((word >> index) & 1U) != 0;
}

// The register states that the operating system saves (XCR0).
std::uint64_t enabled_states() {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (std::uint64_t{high} << 32) | low;
}

bool may_use_tiles() {
#ifdef __linux__
    constexpr long request_permission = 0x1023; // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

CpuFeatures detect() {
    CpuFeatures found;
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !bit(c, 27)) // OSXSAVE
        return found;
    const bool fma = bit(c, 12);
    const bool f16c = bit(c, 29);
    const std::uint64_t states = enabled_states();
    constexpr std::uint64_t ymm = 0x6;
    constexpr std::uint64_t zmm = ymm | 0xE0;
    constexpr std::uint64_t tiles = 0x60000;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0)
        return found;
    const unsigned leaf7_ebx = b;
    const unsigned leaf7_ecx = c;
    const unsigned leaf7_edx = d;
    const unsigned subleaves = a;
    found.avx2 = (states & ymm) == ymm && bit(leaf7_ebx, 5) && fma && f16c;
    found.avx512 = found.avx2 && (states & zmm) == zmm && bit(leaf7_ebx, 16) && bit(leaf7_ebx, 17) &&
                   bit(leaf7_ebx, 30) && bit(leaf7_ebx, 31);
    found.avx512_vnni = found.avx512 && bit(leaf7_ecx, 1) && bit(leaf7_ecx, 11); // VBMI, VNNI
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0)
        found.avx512_bf16 = found.avx512 && bit(a, 5);
    found.amx_bf16 = found.avx512_bf16 && (states & tiles) == tiles && bit(leaf7_edx, 22) &&
                     bit(leaf7_edx, 24) && may_use_tiles();
    return found;
}

#elif defined(__aarch64__)

CpuFeatures detect() {
    CpuFeatures found;
    found.neon = true;
#ifdef __linux__
    constexpr unsigned long bf16 = 1UL << 14; // HWCAP2_BF16
    found.neon_bf16 = (getauxval(AT_HWCAP2) & bf16) != 0;
#endif
    return found;
}

#else

CpuFeatures detect() {
    return {};
}

#endif

} // namespace

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = detect();
    return features;
}

} // namespace twofold
