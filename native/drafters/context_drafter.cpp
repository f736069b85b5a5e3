// One sequence in the cache, of which a prefix agrees with what was observed.
#include "drafters/context_drafter.h"

#include "error.h"
#include "model/library_log.h"
#include "speculative/chances.h"

#include <llama-ext.h>
#include <llama.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace twofold {
namespace {

constexpr std::uint32_t widest_pass = 512;
// Fewer missing tokens are read along with the next draft's first pass.
constexpr std::size_t few = 16;
constexpr std::uint32_t least_context = 64;

bool recurrent(const llama_model* model) {
    return llama_model_is_hybrid(model) || llama_model_is_recurrent(model);
}

} // namespace

void ContextDrafter::FreeContext::operator()(llama_context* context) const noexcept {
    llama_free(context);
}

// NOLINTNEXTLINE(bugprone-random-generator-seed): sample_as() seeds it
ContextDrafter::ContextDrafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                               const std::atomic<bool>& cancelled)
    : model_(std::move(model)),
      n_ctx_(std::max(least_context, std::min(params.n_ctx, static_cast<std::uint32_t>(std::max(
                                                                llama_model_n_ctx_train(model_.get()), 1))))),
      n_threads_(params.n_threads), cancelled_(cancelled) {
    const std::int32_t tokens = llama_vocab_n_tokens(model_.vocab());
    if (tokens != target_tokens)
        throw Error("draft.vocabulary", {{"theirs", static_cast<std::int64_t>(tokens)},
                                         {"ours", static_cast<std::int64_t>(target_tokens)}});
}

void ContextDrafter::open() {
    llama_context_params options = llama_context_default_params();
    options.n_ctx = n_ctx_;
    options.n_batch = options.n_ubatch = std::min(widest_pass, n_ctx_);
    options.n_threads = options.n_threads_batch = n_threads_;
    options.swa_full = true; // any tail can be taken back
    options.no_perf = true;
    prepare(options);
    take_last_library_error();
    context_.reset(llama_init_from_model(model_.get(), options));
    if (!context_)
        throw Error("context.failed",
                    {{"n_ctx", static_cast<std::int64_t>(n_ctx_)}, {"why", take_last_library_error()}});
    llama_set_abort_callback(
        context_.get(), [](void* data) { return static_cast<const std::atomic<bool>*>(data)->load(); },
        const_cast<std::atomic<bool>*>(&cancelled_));
    opened();
}

void ContextDrafter::clear() {
    if (context_)
        llama_memory_clear(llama_get_memory(context_.get()), true);
    held_.clear();
    saved_.clear();
    agreed_ = 0;
}

void ContextDrafter::sample_as(const SamplerParams& sampling, bool drawn) {
    sampler_.reset();
    if (!drawn || sampling.temperature <= 0.0F)
        return;
    SamplerParams own = sampling;
    own.repeat_penalty = 1.0F;
    own.frequency_penalty = own.presence_penalty = 0.0F;
    sampler_ = std::make_unique<Sampler>(own, model_.vocab());
    random_.seed(sampling.seed + 0xd1b54a32d192ed03ULL); // apart from the verifier's
}

void ContextDrafter::observe(std::span<const std::int32_t> tokens, std::span<const float>) {
    context_tokens_.insert(context_tokens_.end(), tokens.begin(), tokens.end());
    if (context_tokens_.size() > held_.size() + few)
        catch_up();
}

void ContextDrafter::forget(std::size_t length) {
    skipped_ = std::min(skipped_, length);
    context_tokens_.resize(std::min(context_tokens_.size(), length - skipped_));
    agreed_ = std::min(agreed_, context_tokens_.size());
}

void ContextDrafter::skip(std::size_t tokens) {
    context_tokens_.clear();
    agreed_ = 0;
    skipped_ += tokens;
}

void ContextDrafter::suspend() {
    context_.reset();
    clear();
    context_tokens_ = {};
    held_ = {};
    saved_ = {};
    skipped_ = 0;
}

void ContextDrafter::drop(std::size_t count) {
    context_tokens_.erase(context_tokens_.begin(),
                          context_tokens_.begin() + static_cast<std::ptrdiff_t>(count));
    skipped_ += count;
    clear();
    dropped(count);
}

// Brings the cache to the observed tokens, so that the last one's logits are there.
bool ContextDrafter::catch_up() {
    if (!context_)
        open();
    if (context_tokens_.size() + max_draft > n_ctx_) // beyond its own context it goes on with the later half
        drop(context_tokens_.size() - std::min<std::size_t>(context_tokens_.size(), n_ctx_ / 2));
    while (keeps_drafted() && agreed_ < std::min(held_.size(), context_tokens_.size()) &&
           held_[agreed_] == context_tokens_[agreed_])
        ++agreed_;
    const std::size_t kept = std::min(agreed_, context_tokens_.size() - 1);
    if (kept < held_.size() && !take_back(kept))
        clear();
    if (held_.size() < readable_from())
        drop(readable_from());
    if (context_tokens_.empty())
        return false;
    const bool done = read(std::span(context_tokens_).subspan(held_.size()), false);
    agreed_ = held_.size();
    return done;
}

// False if nothing can be kept. Recurrent state goes back to before the last draft, and no less far.
bool ContextDrafter::take_back(std::size_t length) {
    if (recurrent(model_.get())) {
        if (saved_length_ > length || saved_.empty() ||
            llama_state_seq_set_data_ext(context_.get(), saved_.data(), saved_.size(), 0,
                                         LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) == 0)
            return false;
        length = saved_length_;
    }
    if (length == 0 ||
        !llama_memory_seq_rm(llama_get_memory(context_.get()), 0, static_cast<llama_pos>(length), -1))
        return false;
    held_.resize(length);
    return true;
}

void ContextDrafter::save() {
    if (!recurrent(model_.get()))
        return;
    constexpr llama_state_seq_flags flags = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
    saved_.resize(llama_state_seq_get_size_ext(context_.get(), 0, flags));
    saved_.resize(llama_state_seq_get_data_ext(context_.get(), saved_.data(), saved_.size(), 0, flags));
    saved_length_ = held_.size();
}

bool ContextDrafter::read(std::span<const std::int32_t> tokens, bool drafted) {
    while (!tokens.empty()) {
        const std::span<const std::int32_t> pass =
            tokens.first(std::min<std::size_t>(tokens.size(), llama_n_batch(context_.get())));
        if (!evaluate(held_.size(), pass, drafted)) {
            clear();
            return false;
        }
        held_.insert(held_.end(), pass.begin(), pass.end());
        tokens = tokens.subspan(pass.size());
    }
    return true;
}

bool ContextDrafter::decode(const llama_batch& batch) {
    take_last_library_error();
    return finished(llama_decode(context_.get(), batch));
}

bool ContextDrafter::encode(const llama_batch& batch) {
    take_last_library_error();
    return finished(llama_encode(context_.get(), batch));
}

bool ContextDrafter::finished(std::int32_t result) {
    llama_synchronize(context_.get());
    if (result == 2 || cancelled_)
        return false;
    if (result != 0) {
        clear();
        throw Error("session.evaluation_failed",
                    {{"result", static_cast<std::int64_t>(result)}, {"why", take_last_library_error()}});
    }
    return true;
}

ContextDrafter::Guess ContextDrafter::guess() {
    Guess guess;
    if (sampler_) {
        guess.distribution = sampler_->distribution(context_.get(), -1);
        std::vector<double> chances(guess.distribution.begin(), guess.distribution.end());
        if (!normalise(chances))
            return guess;
        guess.token = draw(chances, random_);
        guess.confidence = static_cast<float>(*std::max_element(chances.begin(), chances.end()));
        return guess;
    }
    const float* logits = llama_get_logits_ith(context_.get(), -1);
    const auto tokens = static_cast<std::size_t>(llama_vocab_n_tokens(model_.vocab()));
    const float* best = std::max_element(logits, logits + tokens);
    float sum = 0;
    for (std::size_t token = 0; token < tokens; ++token)
        sum += std::exp(logits[token] - *best);
    if (!std::isfinite(*best) || !std::isfinite(sum))
        return guess;
    guess.token = static_cast<std::int32_t>(best - logits);
    guess.confidence = 1 / sum;
    return guess;
}

Draft ContextDrafter::draft(std::size_t limit, const More& more) {
    Draft draft;
    limit = std::min(limit, max_draft);
    if (context_tokens_.empty() || limit == 0 || !catch_up())
        return draft;
    save();
    std::vector<float> confidences;
    for (;;) {
        Guess next = guess();
        if (next.token < 0)
            break;
        confidences.push_back(next.confidence);
        const bool wanted = more(confidences);
        // Of a draft that is not wanted at all, the first token tells in time how good it was.
        if (!wanted && (sampler_ || !draft.empty()))
            break;
        draft.nodes.push_back({.token = next.token,
                               .parent = static_cast<std::int32_t>(draft.nodes.size()) - 1,
                               .confidence = next.confidence});
        if (sampler_)
            draft.proposals.push_back(std::move(next.distribution));
        if (!wanted || draft.nodes.size() == limit || !read({&draft.nodes.back().token, 1}, true))
            break;
    }
    draft.steps = std::max<std::size_t>(confidences.size(), 1);
    return draft;
}

std::uint64_t ContextDrafter::bytes() const {
    if (!context_)
        return weight_bytes();
    std::uint64_t total = saved_.capacity();
    for (const auto& [type, bytes] : llama_get_memory_breakdown(context_.get()))
        total += bytes.model + bytes.context + bytes.compute;
    return total;
}

std::uint64_t ContextDrafter::weight_bytes() const {
    return llama_model_size(model_.get());
}

} // namespace twofold
