// The library's CPU backend, which is either linked to the library or one of several variants that is opened
// at run time: nothing may link to it, so its functions are looked up in the file that was loaded.
#pragma once

#include <ggml-backend.h>
#include <ggml.h>

#include <cstdint>
#include <string>
#include <vector>

struct ggml_threadpool;

namespace twofold {

// The backend's functions that are not reached through ggml's registry.
struct CpuBackend {
    std::vector<ggml_backend_buffer_type_t>& (*extra_buffer_types)();
    void (*barrier)(ggml_threadpool*);
    void (*chunk_set)(ggml_threadpool*, int);
    int (*chunk_add)(ggml_threadpool*, int);
    void (*fp16_to_fp32)(const ggml_fp16_t*, float*, std::int64_t);
    void (*bf16_to_fp32)(const ggml_bf16_t*, float*, std::int64_t);
};

// Looked up once. Throws Error "kernel.no_hook" (`missing`) when the loaded library lacks one.
const CpuBackend& cpu_backend();

// Has an effect on the CPU backend alone; others have no threads to set.
void set_cpu_threads(ggml_backend_t backend, int threads);

struct CpuVariant {
    std::string name; // as in libggml-cpu-NAME.so
    int score = 0;    // the library's own; 0 where this processor cannot run it
};

// The variants that `folder` holds, the best for this processor first; empty where the backend is linked.
std::vector<CpuVariant> cpu_variants(const std::string& folder);

// Opens the best variant in `folder`, or the one called `wanted` if that is not empty; does nothing where the
// library has its CPU backend already. Throws Error "cpu.no_variant" (`folder`), "cpu.unknown_variant"
// (`name`, `known`), "cpu.unfit_variant" (`name`, `fit`).
void load_cpu_backend(const std::string& folder, const std::string& wanted);

// The variant in use; empty where the backend is linked or not loaded yet.
std::string cpu_variant();

} // namespace twofold
