// The library's sampler chain, in its customary order.
#include "session/sampler.h"
#include "error.h"
#include "model/library_log.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

namespace twofold {
namespace {

struct Choice {
    llama_token token;
    bool allowed;
};

using Tokens = std::vector<llama_token_data>;

Tokens candidates(llama_context* context, std::int32_t output, const llama_vocab* vocab) {
    const float* logits = llama_get_logits_ith(context, output);
    Tokens tokens;
    const std::int32_t count = llama_vocab_n_tokens(vocab);
    tokens.reserve(static_cast<std::size_t>(count));
    for (llama_token token = 0; token < count; ++token)
        tokens.push_back({token, logits[token], 0.0F});
    return tokens;
}

// What the chain picks of all tokens, or of those that `grammar` allows.
Choice pick(Tokens tokens, llama_sampler* grammar, llama_sampler* chain) {
    llama_token_data_array array{tokens.data(), tokens.size(), -1, false};
    if (grammar)
        llama_sampler_apply(grammar, &array);
    llama_sampler_apply(chain, &array);
    const llama_token_data& picked = array.data[array.selected];
    return {picked.id, !std::isinf(picked.logit)};
}

// The chances of what pick() gives.
std::vector<float> chances(Tokens tokens, llama_sampler* grammar, llama_sampler* chain, bool greedy) {
    std::vector<float> result(tokens.size(), 0.0F);
    llama_token_data_array array{tokens.data(), tokens.size(), -1, false};
    if (grammar)
        llama_sampler_apply(grammar, &array);
    llama_sampler_apply(chain, &array);
    if (greedy) {
        const llama_token_data& picked = array.data[array.selected];
        if (!std::isinf(picked.logit))
            result[static_cast<std::size_t>(picked.id)] = 1.0F;
        return result;
    }
    float peak = -HUGE_VALF;
    for (std::size_t i = 0; i < array.size; ++i)
        peak = std::max(peak, array.data[i].logit);
    if (std::isinf(peak))
        return result;
    double sum = 0;
    for (std::size_t i = 0; i < array.size; ++i)
        sum += std::exp(static_cast<double>(array.data[i].logit) - peak);
    for (std::size_t i = 0; i < array.size; ++i)
        result[static_cast<std::size_t>(array.data[i].id)] =
            static_cast<float>(std::exp(static_cast<double>(array.data[i].logit) - peak) / sum);
    return result;
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
    : vocab_(vocab), greedy_(params.temperature <= 0.0F),
      chain_(llama_sampler_chain_init(llama_sampler_chain_default_params())) {
    const auto add = [this](llama_sampler* sampler) { llama_sampler_chain_add(chain_.get(), sampler); };
    if (params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F)
        add(llama_sampler_init_penalties(llama_vocab_n_tokens(vocab), params.penalty_last_n,
                                         params.repeat_penalty, params.frequency_penalty,
                                         params.presence_penalty));
    if (greedy_) {
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
    if (grammar_)
        llama_sampler_accept(grammar_.get(), token);
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

std::int32_t Sampler::sample(llama_context* context, std::int32_t output) {
    return grammar_ ? sample_constrained(context, output)
                    : llama_sampler_sample(chain_.get(), context, output);
}

// Asking the grammar about one token is cheap, and about all of them is not: the chain picks first.
std::int32_t Sampler::sample_constrained(llama_context* context, std::int32_t output) {
    const Tokens tokens = candidates(context, output, vocab_);
    Choice choice = pick(tokens, nullptr, chain_.get());
    if (!allows(grammar_.get(), choice.token)) {
        choice = pick(tokens, grammar_.get(), chain_.get());
        if (!choice.allowed)
            throw Error("grammar.dead_end");
    }
    llama_sampler_accept(grammar_.get(), choice.token);
    llama_sampler_accept(chain_.get(), choice.token);
    return choice.token;
}

std::vector<float> Sampler::distribution(llama_context* context, std::int32_t output) {
    const Tokens tokens = candidates(context, output, vocab_);
    std::vector<float> first = chances(tokens, nullptr, chain_.get(), greedy_);
    if (!grammar_)
        return first;
    // A first pick that the grammar refuses is picked again among what it allows.
    float refused = 0;
    for (std::size_t token = 0; token < first.size(); ++token) {
        if (first[token] <= 0 || allows(grammar_.get(), static_cast<llama_token>(token)))
            continue;
        refused += first[token];
        first[token] = 0;
    }
    if (refused <= 0)
        return first;
    const std::vector<float> again = chances(tokens, grammar_.get(), chain_.get(), greedy_);
    float sum = 0;
    for (std::size_t token = 0; token < first.size(); ++token) {
        first[token] += refused * again[token];
        sum += again[token];
    }
    if (sum <= 0)
        throw Error("grammar.dead_end");
    return first;
}

} // namespace twofold
