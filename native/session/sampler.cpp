// The library's sampler chain, in its customary order.
#include "session/sampler.h"
#include "error.h"
#include "model/library_log.h"

#include <llama.h>

#include <cmath>
#include <exception>
#include <vector>

namespace twofold {
namespace {

struct Choice {
    llama_token token;
    bool allowed;
};

// What the chain picks of all tokens, or of those that `grammar` allows.
Choice pick(llama_context* context, const llama_vocab* vocab, llama_sampler* grammar, llama_sampler* chain) {
    const float* logits = llama_get_logits_ith(context, -1);
    std::vector<llama_token_data> tokens;
    const std::int32_t count = llama_vocab_n_tokens(vocab);
    tokens.reserve(static_cast<std::size_t>(count));
    for (llama_token token = 0; token < count; ++token)
        tokens.push_back({token, logits[token], 0.0F});
    llama_token_data_array array{tokens.data(), tokens.size(), -1, false};
    if (grammar)
        llama_sampler_apply(grammar, &array);
    llama_sampler_apply(chain, &array);
    const llama_token_data& picked = array.data[array.selected];
    return {picked.id, !std::isinf(picked.logit)};
}

bool allows(llama_sampler* grammar, llama_token token) {
    llama_token_data data{token, 1.0F, 0.0F};
    llama_token_data_array array{&data, 1, -1, false};
    llama_sampler_apply(grammar, &array);
    return !std::isinf(data.logit);
}

} // namespace

void Sampler::Free::operator()(llama_sampler* sampler) const noexcept {
    llama_sampler_free(sampler);
}

Sampler::Sampler(const SamplerParams& params, const llama_vocab* vocab)
    : vocab_(vocab), chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
    const auto add = [this](llama_sampler* sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
    if (params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F)
        add(llama_sampler_init_penalties(llama_vocab_n_tokens(vocab), params.penalty_last_n,
                                         params.repeat_penalty, params.frequency_penalty,
                                         params.presence_penalty));
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

void Sampler::constrain(const std::string& grammar) {
    take_last_library_error();
    std::string why;
    try {
        grammar_.reset(llama_sampler_init_grammar(vocab_, grammar.c_str(), "root"));
    } catch (const std::exception& error) {
        why = error.what();
    }
    if (!grammar_)
        throw Error("grammar.invalid", {{"why", why.empty() ? take_last_library_error() : why}});
}

std::int32_t Sampler::sample(llama_context* context) {
    return grammar_ ? sample_constrained(context) : llama_sampler_sample(chain_.get(), context, -1);
}

// Asking the grammar about one token is cheap, and about all of them is not: the chain picks first.
std::int32_t Sampler::sample_constrained(llama_context* context) {
    Choice choice = pick(context, vocab_, nullptr, chain_.get());
    if (!allows(grammar_.get(), choice.token)) {
        choice = pick(context, vocab_, grammar_.get(), chain_.get());
        if (!choice.allowed)
            throw Error("grammar.dead_end");
    }
    llama_sampler_accept(grammar_.get(), choice.token);
    llama_sampler_accept(chain_.get(), choice.token);
    return choice.token;
}

} // namespace twofold
