// The library's own rehearsal of a load (no_alloc), and its account of the buffers.
#include "model/memory_estimate.h"

#include "error.h"
#include "model/library_log.h"
#include "speculative/draft.h"

#include <ggml-backend.h>
#include <llama-ext.h>
#include <llama.h>

#include <memory>

namespace twofold {
namespace {

// What a buffer of this type takes beyond what was asked for; the rehearsal does not count it. Some drivers'
// pinned memory is padded so (Vulkan's by 32 bytes).
std::uint64_t padding(ggml_backend_buffer_type_t type) {
    constexpr std::size_t asked = 64;
    if (!ggml_backend_buft_is_host(type))
        return 0;
    const std::unique_ptr<ggml_backend_buffer, decltype(&ggml_backend_buffer_free)> buffer(
        ggml_backend_buft_alloc_buffer(type, asked), &ggml_backend_buffer_free);
    return buffer ? ggml_backend_buffer_get_size(buffer.get()) - asked : 0;
}

} // namespace

std::vector<MemoryPart> estimate_memory(const MemoryQuestion& question) {
    if (question.paths.empty())
        throw Error("model.load_failed", {{"path", std::string()}, {"why", std::string("no file named")}});
    capture_library_log();
    llama_backend_init();

    llama_model_params options = llama_model_default_params();
    options.no_alloc = true;
    options.load_mode = LLAMA_LOAD_MODE_NONE;
    options.n_gpu_layers = question.n_gpu_layers;
    // As in Model: with no layer on them, devices are left alone.
    std::vector<ggml_backend_dev_t> devices;
    for (const std::string& name : question.devices) {
        devices.push_back(ggml_backend_dev_by_name(name.c_str()));
        if (!devices.back())
            throw Error("device.unknown", {{"device", name}});
    }
    if (question.n_gpu_layers == 0)
        devices.clear();
    if (question.n_gpu_layers == 0 || !devices.empty()) {
        devices.push_back(nullptr);
        options.devices = devices.data();
    }
    std::vector<const char*> paths;
    for (const std::string& path : question.paths)
        paths.push_back(path.c_str());
    take_last_library_error();
    const std::unique_ptr<llama_model, decltype(&llama_model_free)> model(
        paths.size() == 1 ? llama_model_load_from_file(paths[0], options)
                          : llama_model_load_from_splits(paths.data(), paths.size(), options),
        &llama_model_free);
    if (!model)
        throw Error("model.load_failed", {{"path", question.paths[0]}, {"why", take_last_library_error()}});

    // As in Session::make_context(), or the compute buffers would be others.
    llama_context_params context_options = llama_context_default_params();
    context_options.n_ctx = question.n_ctx;
    context_options.n_batch = question.micro_batch;
    context_options.n_ubatch = question.micro_batch;
    context_options.n_outputs_max = 1 + max_draft;
    context_options.n_outputs_max_per_seq = 1 + max_draft;
    context_options.op_offload = false;
    context_options.swa_full = false;
    context_options.type_k = static_cast<ggml_type>(question.type_k);
    context_options.type_v = static_cast<ggml_type>(question.type_v);
    const std::unique_ptr<llama_context, decltype(&llama_free)> context(
        llama_init_from_model(model.get(), context_options), &llama_free);
    if (!context)
        throw Error("context.failed", {{"n_ctx", static_cast<std::int64_t>(question.n_ctx)},
                                       {"why", take_last_library_error()}});

    std::vector<MemoryPart> parts;
    for (const auto& [type, bytes] : llama_get_memory_breakdown(context.get())) {
        const std::uint64_t more = padding(type);
        const auto padded = [more](std::uint64_t size) { return size > 0 ? size + more : 0; };
        parts.push_back({.buffer = ggml_backend_buft_name(type),
                         .host = ggml_backend_buft_is_host(type),
                         .weights = padded(bytes.model),
                         .context = padded(bytes.context),
                         .compute = padded(bytes.compute)});
    }
    return parts;
}

} // namespace twofold
