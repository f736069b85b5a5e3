// The encoder's rows and the tokens go through the block together.
#include "drafters/eagle3_drafter.h"

#include "error.h"

#include <llama-ext.h>
#include <llama.h>

#include <algorithm>
#include <utility>

namespace twofold {
namespace {

constexpr std::uint32_t widest_pass = 64; // each token's logits take memory

// What a batch of both tokens and rows points to.
struct Rows {
    std::vector<llama_pos> positions;
    std::vector<std::int32_t> counts;
    std::vector<llama_seq_id*> sequences;
    std::vector<std::int8_t> wanted;
    llama_seq_id sequence = 0;
    llama_batch batch{};

    // All rows' logits are wanted: the library's graph makes them, and knows of no others. `tokens` may be
    // none.
    Rows(const std::int32_t* tokens, const float* rows, std::size_t count, std::size_t first)
        : counts(count, 1), sequences(count, &sequence), wanted(count, 1) {
        for (std::size_t i = 0; i < count; ++i)
            positions.push_back(static_cast<llama_pos>(first + i));
        batch.n_tokens = static_cast<std::int32_t>(count);
        batch.token = const_cast<std::int32_t*>(tokens);
        batch.embd = const_cast<float*>(rows);
        batch.pos = positions.data();
        batch.n_seq_id = counts.data();
        batch.seq_id = sequences.data();
        batch.logits = wanted.data();
    }
    ~Rows() = default;
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
};

} // namespace

Eagle3Drafter::Eagle3Drafter(Model model, const ContextDrafterParams& params, std::int32_t target_tokens,
                             std::size_t target_width, llama_context* target,
                             const std::atomic<bool>& cancelled)
    : ContextDrafter(std::move(model), params, target_tokens, cancelled), target_(target),
      feature_width_(taps().size() * target_width),
      width_(static_cast<std::size_t>(llama_model_n_embd(this->model().get()))) {
    const std::string wanted = this->model().metadata("eagle3.target_hidden_size");
    if (wanted != std::to_string(target_width))
        throw Error("draft.features",
                    {{"theirs", wanted}, {"ours", static_cast<std::int64_t>(target_width)}});
    open();
}

std::vector<std::uint32_t> Eagle3Drafter::taps() const {
    const std::int32_t* layers = llama_model_target_layer_ids(model().get());
    return {layers, layers + llama_model_target_layer_ids_n(model().get())};
}

void Eagle3Drafter::prepare(llama_context_params& options) const {
    options.ctx_other = target_;
    options.n_batch = options.n_ubatch = std::min(options.n_batch, widest_pass);
}

void Eagle3Drafter::opened() {
    llama_set_embeddings_nextn(context(), true, false);
}

void Eagle3Drafter::observe(std::span<const std::int32_t> tokens, std::span<const float> features) {
    features_.insert(features_.end(), features.begin(), features.end());
    ContextDrafter::observe(tokens, features);
}

void Eagle3Drafter::forget(std::size_t length) {
    ContextDrafter::forget(length);
    const std::size_t left = observed() - skipped();
    first_ = std::min(first_, left);
    features_.resize(std::min(features_.size(), (left - first_) * feature_width_));
}

void Eagle3Drafter::skip(std::size_t tokens) {
    ContextDrafter::skip(tokens);
    first_ = 0;
    features_.clear();
}

void Eagle3Drafter::suspend() {
    ContextDrafter::suspend();
    first_ = 0;
    features_ = {};
}

void Eagle3Drafter::dropped(std::size_t count) {
    const std::size_t gone = std::min(count, first_);
    first_ -= gone;
    const auto rows =
        static_cast<std::ptrdiff_t>(std::min(features_.size(), (count - gone) * feature_width_));
    features_.erase(features_.begin(), features_.begin() + rows);
}

bool Eagle3Drafter::evaluate(std::size_t first, std::span<const std::int32_t> tokens, bool drafted) {
    const std::size_t count = tokens.size();
    std::vector<float> inputs = state_;
    if (!drafted) {
        const Rows read(nullptr, features_.data() + (first - first_) * feature_width_, count, first);
        if (!encode(read.batch))
            return false;
        const float* rows = llama_get_embeddings_nextn(context());
        inputs.assign(rows, rows + count * width_);
    }
    const Rows read(tokens.data(), inputs.data(), count, first);
    if (!decode(read.batch))
        return false;
    const float* rows = llama_get_embeddings_nextn(context());
    state_.assign(rows + (count - 1) * width_, rows + count * width_);
    if (!drafted) { // the last token may be read again
        const std::size_t done = first + count - 1 - first_;
        features_.erase(features_.begin(),
                        features_.begin() + static_cast<std::ptrdiff_t>(done * feature_width_));
        first_ += done;
    }
    return true;
}

} // namespace twofold
