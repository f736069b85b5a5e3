// One model, one context, one KV cache; reads prompts in either phase's weights and writes answers.
//
// A session belongs to the thread that made it; only cancel() may be called from another.
#pragma once

#include "drafters/context_drafter.h"
#include "model/model.h"
#include "phase/block_counter.h"
#include "phase/context_phase.h"
#include "phase/graph_scan.h"
#include "phase/layer_table.h"
#include "phase/prefill_weights.h"
#include "session/sampler.h"
#include "speculative/drafting.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

struct llama_context;

namespace twofold {

// The narrowest prompt that is worth prefill weights; shorter ones are read by the decoder.
inline constexpr std::uint32_t min_prefill_tokens = 32;

struct ContextParams {
    std::uint32_t n_ctx = 0;       // 0: what the model was trained for
    std::uint32_t micro_batch = 0; // tokens per pass at most; 0: as many as the budget allows
    std::uint64_t compute_budget = std::uint64_t{1} << 30; // bytes of compute buffers for choosing it
    std::int32_t n_threads = 1;
    // States before each of the last tokens, which a model with recurrent state needs to take back drafts: as
    // many tokens can be drafted. Each takes the memory of one recurrent state.
    std::uint32_t snapshots = 0;
};

struct PrefillProgress {
    std::uint32_t tokens_done = 0;
    std::uint32_t tokens_total = 0;
    std::uint32_t blocks_done = 0; // in this pass
    std::uint32_t blocks_total = 0;
    std::uint32_t pass = 0;
    std::uint32_t passes = 0;
    std::uint64_t bytes_read = 0;
};
// Answers false to cancel.
using ProgressCallback = std::function<bool(const PrefillProgress&)>;

struct PrefillReport {
    bool used_prefiller = false;
    bool used_autocast = false;
    std::uint32_t tokens = 0;
    std::uint32_t passes = 0;
    std::uint32_t micro_batch = 0; // widest pass
    double seconds = 0;
    std::uint64_t bytes_read = 0;
    double load_seconds = 0; // disk busy
    double wait_seconds = 0; // compute waited for the disk
};

// Bytes by kind, as the library allocated them.
struct SessionMemory {
    std::uint64_t weights = 0;
    std::uint64_t context = 0;
    std::uint64_t compute = 0;
    std::uint64_t on_devices = 0; // of these three, what is in devices' own memory and not the host's
    std::uint64_t drafter = 0;    // all of a drafter's
};

// How a drafter with distributions chooses: the most likely tokens, so that an answer's tokens are those of
// its seed; or drawn ones, which are accepted more often and leave only the distribution the same.
enum class Proposals : std::uint8_t { likeliest, drawn };

class Session {
  public:
    // Throws Error "model.load_failed", "model.load_cancelled", "context.failed".
    Session(const ModelParams& model, const ContextParams& context,
            const std::function<bool(float)>& progress);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    [[nodiscard]] const Model& model() const { return model_; }
    [[nodiscard]] std::uint32_t n_ctx() const;
    [[nodiscard]] std::uint32_t micro_batch() const { return micro_batch_; }
    [[nodiscard]] SessionMemory memory() const;
    // Weights of the decoder's blocks that never meet activations of fewer than 8 bits, whatever a device
    // would choose: its 4-bit floating-point ones.
    [[nodiscard]] std::uint32_t guarded_weights() const { return guarded_weights_; }
    // Nothing where the library does not fuse the model's attention.
    [[nodiscard]] const std::optional<AttentionHeads>& attention_heads() const { return attention_heads_; }
    // From passes of how many tokens on a prompt's attention is computed in tiles where kernels of ours read
    // it; 0, as at first: never.
    void set_attention_tokens(std::int64_t tokens) { attention_tokens_ = tokens; }

    // Pairs the decoder with a prefiller in place of any other. Throws Error "phase.*" when the architecture
    // cannot switch, "disk.*", "memory.out", "cancelled"; no prefiller is attached then.
    void attach(const PrefillerFiles& files, const DecoderFiles& decoder, const PrefillPlan& plan,
                const std::function<bool(std::uint64_t, std::uint64_t)>& progress);
    void detach();
    [[nodiscard]] bool attached() const { return prefiller_ != nullptr; }
    [[nodiscard]] PrefillMemory prefill_memory() const;
    [[nodiscard]] std::vector<StreamEvent> stream_events() const;

    // Reads `tokens` after what the cache holds. Throws Error "session.context_full", "cancelled",
    // "disk.*", "session.evaluation_failed"; cached_tokens() tells what was kept.
    // With `autocast`, kernels of ours multiply the decoder's own weights where they are faster.
    PrefillReport prefill(const std::vector<std::int32_t>& tokens, bool with_prefiller,
                          const ProgressCallback& progress, bool autocast = false);

    // The share of the blocks' linear weights that autocast multiplies in a prompt of `tokens`, 0 to 1.
    [[nodiscard]] double autocast_share(std::uint32_t tokens) const;

    // How surprising each of `tokens` but the first is to the decoder after those before it: negative
    // log-likelihoods in nats. Read in a context of its own, whose logits take n_vocab floats for each of
    // up to 512 tokens. With `autocast` as in prefill(). Throws Error "context.failed", and as prefill().
    [[nodiscard]] std::vector<double> losses(const std::vector<std::int32_t>& tokens, bool autocast);

    // From now on, a second model of the same vocabulary drafts, or an EAGLE-3 head made for this one, in
    // place of what drafted before. A head's taps have to be ones that this model's graphs have. Throws Error
    // "draft.vocabulary", "draft.features", "model.load_failed", "model.load_cancelled", "context.failed";
    // the drafter stays as it was then.
    void draft_with(const ModelParams& model, const std::function<bool(float)>& progress);

    void start_sampling(const SamplerParams& params);
    // From the next token on, samples only what `grammar` allows. Throws Error "grammar.invalid".
    void constrain(const std::string& grammar);
    // Whether next_token() may evaluate drafted tokens along with a sampled one; off at the start. `always`:
    // as many as there are, at most that many, whatever it costs; 0: as many as pay. `proposals` from the
    // next start_sampling() on.
    void use_drafts(bool on, std::size_t always = 0, Proposals proposals = Proposals::likeliest);
    // Samples the next token, evaluating the previous one first. With drafts, the tokens are distributed, and
    // unless they are drawn are for the same seed, those without. Throws what logits() and feed() throw.
    std::int32_t next_token();
    // The chances of each token in next_token(), once the previous one is evaluated: shape [n_vocab].
    std::vector<float> distribution();
    // Of the tokens since start_sampling(); all zero without drafts.
    DraftStatistics draft_statistics();
    // Drafted tokens that one pass can verify with this model and context.
    [[nodiscard]] std::size_t most_drafted() const;
    // Evaluates `token` with the decoder's weights, and in the same pass `guesses`, at most most_drafted():
    // if one is fed next, no pass is needed; if another token is, they are taken back.
    void feed(std::int32_t token, const std::vector<std::int32_t>& guesses = {});
    // Logits after the last cached token, one for each of the vocabulary. Throws Error "session.nothing_read"
    // when that was not the last one evaluated, as after keep().
    [[nodiscard]] std::vector<float> logits() const;

    // Tokens whose state is in the cache, in order.
    [[nodiscard]] const std::vector<std::int32_t>& cached_tokens() const;
    // True for attention models, whose cache can forget any tail.
    [[nodiscard]] bool can_truncate() const;
    // Lengths at which a state was saved, ascending.
    [[nodiscard]] std::vector<std::uint32_t> checkpoints() const;
    // Saves the state as it is now (models that cannot truncate; nothing for others).
    void save_checkpoint();
    void drop_checkpoint(std::uint32_t length);
    // Forgets everything after the first `length` tokens; returns how many really remain.
    std::uint32_t keep(std::uint32_t length);

    // Stops the running call within moments, and any later one until reset_cancel().
    void cancel() noexcept;
    void reset_cancel() noexcept;

    // A hash over every byte of the decoder's weights, in place; equal before and after any prefill.
    std::uint64_t decoder_checksum();
    // Finishes a carve-out's restoration that is still under way.
    void restore_decoder();
    [[nodiscard]] double restore_seconds() const;

  private:
    class Reading;
    struct FreeContext {
        void operator()(llama_context* context) const noexcept;
    };
    using Context = std::unique_ptr<llama_context, FreeContext>;
    struct Checkpoint {
        std::uint32_t length;
        std::vector<std::uint8_t> state;
    };

    void require_owner() const;
    [[nodiscard]] Context make_context(const ContextParams& params, std::uint32_t micro_batch,
                                       std::uint32_t outputs = 1 + max_draft) const;
    // Logits are kept of the last token, or of all.
    void evaluate(const std::int32_t* tokens, std::uint32_t count, bool all_logits = false);
    void evaluate_next(std::int32_t token, const std::vector<std::int32_t>& guesses);
    void keep_features(std::uint32_t count);
    void take_back();
    std::uint32_t rewind(std::uint32_t length, bool state_spoiled);
    void check_cancel() const;
    static bool on_node(ggml_tensor* node, bool ask, void* data) noexcept;

    std::vector<FileIdentity> loaded_; // the model's files, from before they were read
    Model model_;
    ContextParams params_;
    std::thread::id owner_ = std::this_thread::get_id();
    std::uint32_t micro_batch_ = 0;
    std::uint32_t guarded_weights_ = 0;
    std::optional<AttentionHeads> attention_heads_;
    std::int64_t attention_tokens_ = 0;
    bool holds_nvfp4_ = false; // a kernel of ours reads the decoder's own weights, whatever the path
    Context context_;
    LayerTable table_;
    std::unique_ptr<PrefillWeights> prefiller_;
    BlockCounter decoder_counter_;
    std::optional<Sampler> sampler_;
    std::optional<std::int32_t> pending_; // sampled, not yet evaluated
    bool four_bits_;                      // of activations, while prompts are read
    bool has_logits_ = false;             // of the last cached token
    std::int32_t output_ = -1;            // which of the last pass's outputs they are
    std::vector<std::int32_t> cached_;
    std::deque<std::int32_t> ahead_; // guesses in the library's cache, after the cached tokens
    std::atomic<bool> cancelled_{false};
    Drafting drafting_;
    ContextDrafter* context_drafter_ = nullptr; // drafting's own, if it is one
    std::vector<std::uint32_t> taps_;           // blocks whose inputs it wants
    FeatureRows features_;
    Proposals proposals_ = Proposals::likeliest;
    bool use_drafts_ = false;
    double reading_seconds_ = 0; // of the last prompt
    std::deque<Checkpoint> checkpoints_;
    std::mutex streaming_mutex_;
    PrefillWeights* streaming_ = nullptr; // what cancel() has to wake, while a prompt is read
    Reading* reading_ = nullptr;
    bool decoder_dirty_ = false; // a carve-out may still be missing
};

} // namespace twofold
