// Loading, metadata and tokenising through the library's public interface.
#include "model/model.h"

#include "error.h"
#include "hook/product_hook.h"
#include "model/library_log.h"

#include <ggml-backend.h>
#include <llama.h>

namespace twofold {

void Model::Free::operator()(llama_model* model) const noexcept {
    llama_model_free(model);
}

Model::Model(const ModelParams& params, const std::function<bool(float)>& progress) {
    static const bool initialised = [] {
        capture_library_log();
        llama_backend_init();
        return true;
    }();
    (void) initialised;
    install_kernels();

    struct Watch {
        const std::function<bool(float)>& progress;
        bool stopped = false;
    } watch{.progress = progress};

    llama_model_params options = llama_model_default_params();
    options.n_gpu_layers = params.n_gpu_layers;
    std::vector<ggml_backend_dev_t> devices;
    for (const std::string& name : params.devices) {
        ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
        if (!device)
            throw Error("device.unknown", {{"device", name}});
        devices.push_back(device);
    }
    devices.push_back(nullptr);
    if (params.n_gpu_layers == 0)
        devices.assign(1, nullptr);
    if (params.n_gpu_layers == 0 || devices.size() > 1)
        options.devices = devices.data();
    options.use_extra_bufts = params.use_extra_bufts;
    options.load_mode = params.writable ? LLAMA_LOAD_MODE_NONE : LLAMA_LOAD_MODE_MMAP;
    options.progress_callback = [](float done, void* data) {
        auto* self = static_cast<Watch*>(data);
        if (self->progress && !self->progress(done))
            self->stopped = true;
        return !self->stopped;
    };
    options.progress_callback_user_data = &watch;

    std::vector<const char*> paths;
    for (const std::string& path : params.paths)
        paths.push_back(path.c_str());
    if (paths.empty())
        throw Error("model.load_failed", {{"path", std::string()}, {"why", std::string("no file named")}});

    take_last_library_error();
    model_.reset(paths.size() == 1 ? llama_model_load_from_file(paths[0], options)
                                   : llama_model_load_from_splits(paths.data(), paths.size(), options));
    if (watch.stopped)
        throw Error("model.load_cancelled", {{"path", params.paths[0]}});
    if (!model_)
        throw Error("model.load_failed", {{"path", params.paths[0]}, {"why", take_last_library_error()}});
}

const llama_vocab* Model::vocab() const {
    return llama_model_get_vocab(model_.get());
}

std::string Model::architecture() const {
    return metadata("general.architecture");
}

std::string Model::chat_template() const {
    const char* text = llama_model_chat_template(model_.get(), nullptr);
    return text ? text : "";
}

std::string Model::metadata(const std::string& key) const {
    const std::int32_t size = llama_model_meta_val_str(model_.get(), key.c_str(), nullptr, 0);
    if (size < 0)
        return {};
    std::string value(static_cast<std::size_t>(size) + 1, '\0');
    llama_model_meta_val_str(model_.get(), key.c_str(), value.data(), value.size());
    value.resize(static_cast<std::size_t>(size));
    return value;
}

std::vector<std::int32_t> Model::tokenize(const std::string& text, bool add_special,
                                          bool parse_special) const {
    const auto length = static_cast<std::int32_t>(text.size());
    std::vector<std::int32_t> tokens(text.size() + 2);
    std::int32_t count = llama_tokenize(vocab(), text.data(), length, tokens.data(),
                                        static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
    if (count < 0) {
        tokens.resize(static_cast<std::size_t>(-count));
        count = llama_tokenize(vocab(), text.data(), length, tokens.data(),
                               static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
    }
    tokens.resize(static_cast<std::size_t>(count));
    return tokens;
}

std::string Model::piece(std::int32_t token, bool special) const {
    std::string bytes(64, '\0');
    std::int32_t size = llama_token_to_piece(vocab(), token, bytes.data(),
                                             static_cast<std::int32_t>(bytes.size()), 0, special);
    if (size < 0) {
        bytes.resize(static_cast<std::size_t>(-size));
        size = llama_token_to_piece(vocab(), token, bytes.data(), static_cast<std::int32_t>(bytes.size()), 0,
                                    special);
    }
    bytes.resize(static_cast<std::size_t>(size));
    return bytes;
}

} // namespace twofold
