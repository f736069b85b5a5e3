// The library's sampler chain, in its customary order.
#include "session/sampler.h"

#include <llama.h>

namespace twofold {

void Sampler::Free::operator()(llama_sampler* sampler) const noexcept {
    llama_sampler_free(sampler);
}

Sampler::Sampler(const SamplerParams& params, std::int32_t n_vocab)
    : chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
    const auto add = [this](llama_sampler* sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
    if (params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F)
        add(llama_sampler_init_penalties(n_vocab, params.penalty_last_n, params.repeat_penalty,
                                         params.frequency_penalty, params.presence_penalty));
    if (params.temperature <= 0.0F) {
        add(llama_sampler_init_greedy());
        return;
    }
    if (params.top_k > 0)
        add(llama_sampler_init_top_k(params.top_k));
    if (params.top_p < 1.0F)
        add(llama_sampler_init_top_p(params.top_p, 1));
    if (params.min_p > 0.0F)
        add(llama_sampler_init_min_p(params.min_p, 1));
    add(llama_sampler_init_temp(params.temperature));
    add(llama_sampler_init_dist(params.seed));
}

void Sampler::accept(std::int32_t token) {
    llama_sampler_accept(chain_.get(), token);
}

std::int32_t Sampler::sample(llama_context* context) {
    return llama_sampler_sample(chain_.get(), context, -1);
}

} // namespace twofold
