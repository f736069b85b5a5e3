// Loads a decoder with the library and owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

struct llama_model;
struct llama_vocab;

namespace twofold {

struct ModelParams {
    // One path, or all parts of a split file in order.
    std::vector<std::string> paths;
    // Weights in ordinary memory instead of a file mapping, so that a carve-out can lend them.
    bool writable = true;
    // Repacked weight layouts of the CPU backend (faster decode).
    bool use_extra_bufts = true;
    // Layers on other devices than the CPU, counted from the last; negative for all. With 0 none is touched.
    std::int32_t n_gpu_layers = 0;
    std::vector<std::string> devices; // their names; empty for all that the library would take
};

class Model {
  public:
    // `progress` takes 0..1 and answers false to stop. Throws Error "model.load_failed" (with the
    // library's own last error line), "model.load_cancelled" or "device.unknown" (device).
    Model(const ModelParams& params, const std::function<bool(float)>& progress);

    [[nodiscard]] llama_model* get() const noexcept { return model_.get(); }
    [[nodiscard]] const llama_vocab* vocab() const;
    [[nodiscard]] std::string architecture() const;
    [[nodiscard]] std::string chat_template() const;
    // Empty when the file has no such key.
    [[nodiscard]] std::string metadata(const std::string& key) const;

    [[nodiscard]] std::vector<std::int32_t> tokenize(const std::string& text, bool add_special,
                                                     bool parse_special) const;
    // The token's bytes; control tokens are rendered as text only when `special`.
    [[nodiscard]] std::string piece(std::int32_t token, bool special) const;

  private:
    struct Free {
        void operator()(llama_model* model) const noexcept;
    };
    std::unique_ptr<llama_model, Free> model_;
};

} // namespace twofold
