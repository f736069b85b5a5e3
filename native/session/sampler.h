// Turns logits into the next token: penalties, truncation, temperature, seed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

struct llama_context;
struct llama_sampler;

namespace twofold {

struct SamplerParams {
    float temperature = 0.8F; // 0 picks the most likely token
    std::int32_t top_k = 40;  // 0 turns it off
    float top_p = 0.95F;      // 1 turns it off
    float min_p = 0.05F;      // 0 turns it off
    float repeat_penalty = 1.0F;
    float frequency_penalty = 0.0F;
    float presence_penalty = 0.0F;
    std::int32_t penalty_last_n = 64; // tokens that the penalties look back over
    std::uint32_t seed = 0;
};

class Sampler {
  public:
    Sampler(const SamplerParams& params, std::int32_t n_vocab);

    // Lets the penalties see a token that is already in the context.
    void accept(std::int32_t token);

    // Samples from the context's last logits and accepts the result.
    std::int32_t sample(llama_context* context);

  private:
    struct Free {
        void operator()(llama_sampler* sampler) const noexcept;
    };
    std::unique_ptr<llama_sampler, Free> chain_;
};

} // namespace twofold
