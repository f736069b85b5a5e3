// Turns logits into the next token: penalties, truncation, temperature, seed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct llama_context;
struct llama_sampler;
struct llama_vocab;

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
    Sampler(const SamplerParams& params, const llama_vocab* vocab);

    // Lets the penalties and the grammar see a token that was not chosen by sample().
    void accept(std::int32_t token);

    // From now on, samples only what `grammar` (GBNF, from its rule `root`) allows. Throws Error
    // "grammar.invalid".
    void constrain(const std::string& grammar);

    // Samples from the logits of one of the last pass's outputs, as the library counts them (-1: the last),
    // and accepts the result. Throws Error "grammar.dead_end" if the grammar allows none of the tokens.
    std::int32_t sample(llama_context* context, std::int32_t output);
    // The chances of each token in sample(): shape [n_vocab], sums to 1. Throws as sample() does.
    std::vector<float> distribution(llama_context* context, std::int32_t output);

  private:
    std::int32_t sample_constrained(llama_context* context, std::int32_t output);

    struct Free {
        void operator()(llama_sampler* sampler) const noexcept;
    };
    using Handle = std::unique_ptr<llama_sampler, Free>;

    const llama_vocab* vocab_;
    bool greedy_;
    Handle chain_;
    Handle grammar_;
};

} // namespace twofold
