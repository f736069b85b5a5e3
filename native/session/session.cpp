// Phase switching, cache bookkeeping and evaluation.
#include "session/session.h"

#include "drafters/eagle3_drafter.h"
#include "drafters/model_drafter.h"
#include "error.h"
#include "hook/product_hook.h"
#include "kernels/choice.h"
#include "model/library_log.h"
#include "phase/product_precision.h"
#include "speculative/ngram_drafter.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <llama-ext.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace twofold {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t largest_micro_batch = 8192;
constexpr std::uint32_t smallest_micro_batch = 512;
// The decoder's weights are not streamed, so narrow passes cost nothing and can be cancelled sooner.
constexpr std::uint32_t decoder_micro_batch = 512;
constexpr auto progress_interval = std::chrono::milliseconds(50);

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<FileIdentity> identities(const std::vector<std::string>& paths) {
    std::vector<FileIdentity> found;
    for (const std::string& path : paths)
        found.push_back(identity_of(std::filesystem::path(path)).value_or(FileIdentity{}));
    return found;
}

// The sampler's choice after one output of the context's last pass.
class SamplerChoice : public TargetChoice {
  public:
    SamplerChoice(Sampler& sampler, llama_context* context, std::int32_t output)
        : sampler_(sampler), context_(context), output_(output) {}
    std::int32_t sample(std::size_t) override { return sampler_.sample(context_, output_); }
    std::vector<float> distribution(std::size_t) override { return sampler_.distribution(context_, output_); }
    void accept(std::int32_t token) override { sampler_.accept(token); }

  private:
    Sampler& sampler_;
    llama_context* context_;
    std::int32_t output_;
};

} // namespace

// A prompt being read: the phase is switched while this exists, and switched back however it ends.
class Session::Reading {
  public:
    Reading(Session& session, bool with_prefiller, const ProgressCallback& progress, std::uint32_t tokens,
            std::uint32_t passes)
        : session_(session), with_prefiller_(with_prefiller), progress_(progress) {
        state_.tokens_total = tokens;
        state_.passes = passes;
        if (with_prefiller_) {
            {
                const std::scoped_lock lock(session_.streaming_mutex_);
                session_.streaming_ = session_.prefiller_.get();
            }
            session_.decoder_dirty_ = true;
            try {
                session_.prefiller_->start(static_cast<int>(passes));
            } catch (...) {
                release_stream();
                throw;
            }
            session_.table_.exchange();
        }
        state_.blocks_total =
            static_cast<std::uint32_t>(with_prefiller_ ? session_.prefiller_->blocks_in_pass()
                                                       : session_.decoder_counter_.block_count());
        session_.reading_ = this;
        set_context_phase(session_.context_.get(), with_prefiller_ ? Phase::prefill : Phase::decoder_read,
                          &Session::on_node, &session_);
    }

    ~Reading() {
        if (with_prefiller_) {
            session_.table_.exchange();
            release_stream();
        }
        session_.reading_ = nullptr;
        set_context_phase(session_.context_.get(), Phase::decode, nullptr, nullptr);
    }

    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    void start_pass(std::uint32_t pass) {
        state_.pass = pass;
        state_.blocks_done = 0;
        if (with_prefiller_)
            session_.prefiller_->start_pass();
        else
            session_.decoder_counter_.reset();
    }

    void pass_done(std::uint32_t tokens) {
        state_.tokens_done += tokens;
        if (state_.pass + 1 < state_.passes) { // the tokens of this pass count as done, its blocks no more
            ++state_.pass;
            state_.blocks_done = 0;
        }
        report(true);
        rethrow();
    }

    // The library's view of one node: before it is computed (ask) and after.
    bool on_node(ggml_tensor* node, bool ask) noexcept {
        if (failure_)
            return ask;
        try {
            if (ask) {
                sum_in_single_precision(node);
                watched_ = with_prefiller_ ? session_.prefiller_->before_node(node) : ends_block(node);
                return watched_ || session_.cancelled_;
            }
            if (watched_ && (!with_prefiller_ || session_.prefiller_->after_node(node))) {
                ++state_.blocks_done;
                report(false);
            }
            return !session_.cancelled_ && !failure_;
        } catch (...) {
            failure_ = std::current_exception();
            return ask;
        }
    }

    [[nodiscard]] bool complete() const { return !with_prefiller_ || session_.prefiller_->pass_complete(); }

    void rethrow() {
        if (!failure_)
            return;
        try {
            std::rethrow_exception(std::exchange(failure_, nullptr));
        } catch (const Error& error) {
            throw error.code() == "stream.cancelled" ? Error("cancelled") : error;
        }
    }

  private:
    bool ends_block(const ggml_tensor* node) {
        const auto step = session_.decoder_counter_.see(node);
        return step && step->last;
    }

    void report(bool always) {
        if (!progress_ || (!always && Clock::now() - reported_ < progress_interval))
            return;
        reported_ = Clock::now();
        if (with_prefiller_)
            state_.bytes_read = session_.prefiller_->stream_stats().bytes;
        try {
            if (!progress_(state_))
                session_.cancelled_ = true;
        } catch (...) {
            failure_ = std::current_exception();
        }
    }

    void release_stream() {
        {
            const std::scoped_lock lock(session_.streaming_mutex_);
            session_.streaming_ = nullptr;
        }
        session_.prefiller_->stop();
    }

    Session& session_;
    bool with_prefiller_;
    const ProgressCallback& progress_;
    PrefillProgress state_;
    std::exception_ptr failure_;
    bool watched_ = false; // the node being computed matters afterwards
    Clock::time_point reported_{};
};

void Session::FreeContext::operator()(llama_context* context) const noexcept {
    llama_free(context);
}

Session::Session(const ModelParams& model, const ContextParams& context,
                 const std::function<bool(float)>& progress)
    : loaded_(identities(model.paths)), model_(model, progress), params_(context), table_(model_.get()),
      four_bits_(chosen_activations() == Activations::a4), drafting_(std::make_unique<NgramDrafter>()) {
    const auto trained = static_cast<std::uint32_t>(std::max(llama_model_n_ctx_train(model_.get()), 1));
    if (params_.n_ctx == 0)
        params_.n_ctx = trained;
    std::uint32_t width = params_.micro_batch;
    const bool choose = width == 0;
    if (choose)
        width = std::min(largest_micro_batch, params_.n_ctx);
    for (;;) {
        width = std::min(width, params_.n_ctx);
        context_ = make_context(params_, width);
        if (!choose || width <= smallest_micro_batch)
            break;
        if (context_ && memory().compute <= params_.compute_budget)
            break;
        context_.reset();
        width = std::max(width / 2, smallest_micro_batch);
    }
    if (!context_)
        throw Error("context.failed", {{"n_ctx", static_cast<std::int64_t>(params_.n_ctx)},
                                       {"why", take_last_library_error()}});
    micro_batch_ = width;
    llama_set_abort_callback(
        context_.get(), [](void* data) { return static_cast<std::atomic<bool>*>(data)->load(); },
        &cancelled_);

    ggml_cgraph* graph = llama_graph_reserve(context_.get(), micro_batch_, 1, 1);
    if (!graph)
        throw Error("context.failed", {{"n_ctx", static_cast<std::int64_t>(params_.n_ctx)},
                                       {"why", take_last_library_error()}});
    attention_heads_ = scan_attention(graph);
    holds_nvfp4_ = std::ranges::any_of(
        table_.decoder_tensors(), [](const ggml_tensor* tensor) { return tensor->type == GGML_TYPE_NVFP4; });
    std::map<int, std::size_t> order;
    const std::vector<BlockUse> uses = scan_decoder_graph(graph);
    for (const BlockUse& use : uses) {
        order.emplace(use.block, 0);
        guarded_weights_ += use.eight_bits ? 1 : 0;
    }
    std::size_t next = 0;
    for (auto& [block, index] : order)
        index = next++;
    for (const BlockUse& use : uses)
        decoder_counter_.add(use.weight, order[use.block], use.uses);
}

Session::~Session() = default;

void Session::require_owner() const {
    if (std::this_thread::get_id() != owner_)
        throw Error("session.wrong_thread");
}

Session::Context Session::make_context(const ContextParams& params, std::uint32_t micro_batch,
                                       std::uint32_t outputs) const {
    llama_context_params options = llama_context_default_params();
    options.n_ctx = params.n_ctx;
    options.n_batch = micro_batch;
    options.n_ubatch = micro_batch;
    options.n_outputs_max = outputs;
    options.n_outputs_max_per_seq = outputs;
    options.n_rs_seq = params.snapshots;
    options.n_threads = params.n_threads;
    options.n_threads_batch = params.n_threads;
    // Offered host weights would be copied before the eval callback sees them.
    options.op_offload = false;
    // Sliding windows hold a window and a micro-batch, not the whole context; checkpoints go further back.
    options.swa_full = false;
    options.no_perf = true;
    take_last_library_error();
    return Context(llama_init_from_model(model_.get(), options));
}

std::uint32_t Session::n_ctx() const {
    return llama_n_ctx(context_.get());
}

SessionMemory Session::memory() const {
    SessionMemory total;
    for (const auto& [type, bytes] : llama_get_memory_breakdown(context_.get())) {
        total.weights += bytes.model;
        total.context += bytes.context;
        total.compute += bytes.compute;
        if (!ggml_backend_buft_is_host(type))
            total.on_devices += bytes.model + bytes.context + bytes.compute;
    }
    total.drafter = context_drafter_ ? context_drafter_->bytes() : 0;
    return total;
}

void Session::draft_with(const ModelParams& model, const std::function<bool(float)>& progress) {
    require_owner();
    drafting_.drop();
    Model loaded(model, progress);
    const ContextDrafterParams params{.n_ctx = n_ctx(), .n_threads = params_.n_threads};
    const std::int32_t tokens = llama_vocab_n_tokens(model_.vocab());
    const auto width = static_cast<std::size_t>(llama_model_n_embd(model_.get()));
    std::unique_ptr<ContextDrafter> drafter;
    std::vector<std::uint32_t> taps;
    if (loaded.architecture() == "eagle3") {
        auto head = std::make_unique<Eagle3Drafter>(std::move(loaded), params, tokens, width, context_.get(),
                                                    cancelled_);
        taps = head->taps();
        drafter = std::move(head);
    } else {
        drafter = std::make_unique<ModelDrafter>(std::move(loaded), params, tokens, cancelled_);
    }
    ContextDrafter* added = drafter.get();
    // A step reads the drafter's weights where a pass reads the target's.
    const double share = static_cast<double>(drafter->weight_bytes()) /
                         static_cast<double>(std::max<std::uint64_t>(llama_model_size(model_.get()), 1));
    for (const std::uint32_t tap : taps_)
        llama_set_embeddings_layer_inp(context_.get(), tap, false);
    for (const std::uint32_t tap : taps)
        llama_set_embeddings_layer_inp(context_.get(), tap, true);
    features_ = FeatureRows(drafter->feature_width());
    taps_ = std::move(taps);
    drafting_ = Drafting(std::move(drafter), share);
    context_drafter_ = added;
}

void Session::attach(const PrefillerFiles& files, const DecoderFiles& decoder, const PrefillPlan& plan,
                     const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
    require_owner();
    detach();
    try {
        auto weights = std::make_unique<PrefillWeights>(table_, files, plan);
        ggml_cgraph* graph = nullptr;
        {
            const ExchangedTables exchanged(table_);
            graph = llama_graph_reserve(context_.get(), micro_batch_, 1, 1);
        }
        if (!graph)
            throw Error("context.failed",
                        {{"n_ctx", static_cast<std::int64_t>(n_ctx())}, {"why", take_last_library_error()}});
        DecoderFiles whence = decoder;
        whence.loaded = loaded_;
        weights->allocate(scan_prefill_graph(graph, weights->bound()), scheduler_of(context_.get()), whence,
                          [&](std::uint64_t done, std::uint64_t total) {
                              return !cancelled_ && (!progress || progress(done, total));
                          });
        prefiller_ = std::move(weights);
    } catch (...) {
        table_.reset();
        throw;
    }
}

void Session::detach() {
    require_owner();
    if (!prefiller_)
        return;
    restore_decoder();
    table_.reset();
    prefiller_.reset();
}

PrefillMemory Session::prefill_memory() const {
    return prefiller_ ? prefiller_->memory() : PrefillMemory{};
}

std::vector<StreamEvent> Session::stream_events() const {
    return prefiller_ ? prefiller_->events() : std::vector<StreamEvent>{};
}

void Session::check_cancel() const {
    if (cancelled_)
        throw Error("cancelled");
}

// The caller makes sure that `tokens` fit; positions follow on from the cache.
void Session::evaluate(const std::int32_t* tokens, std::uint32_t count, bool all_logits) {
    take_last_library_error();
    has_logits_ = false;
    output_ = all_logits ? 0 : -1;
    std::vector<std::int8_t> wanted(all_logits ? count : 0, 1);
    llama_batch batch =
        llama_batch_get_one(const_cast<std::int32_t*>(tokens), static_cast<std::int32_t>(count));
    if (all_logits)
        batch.logits = wanted.data();
    const std::int32_t result = llama_decode(context_.get(), batch);
    llama_synchronize(context_.get());
    if (result == 2 || cancelled_)
        throw Error("cancelled");
    if (result != 0)
        throw Error("session.evaluation_failed",
                    {{"result", static_cast<std::int64_t>(result)}, {"why", take_last_library_error()}});
    keep_features(count);
}

// Of the pass that is just done, whose tokens follow the cached ones.
void Session::keep_features(std::uint32_t count) {
    if (taps_.empty())
        return;
    const std::span<float> rows = features_.add(cached_.size(), count);
    const std::size_t width = features_.width() / taps_.size();
    for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
        const float* inputs = llama_get_embeddings_layer_inp(context_.get(), taps_[tap]);
        for (std::size_t i = 0; i < count; ++i)
            std::copy_n(inputs + i * width, width, rows.data() + i * features_.width() + tap * width);
    }
}

PrefillReport Session::prefill(const std::vector<std::int32_t>& tokens, bool with_prefiller,
                               const ProgressCallback& progress, bool autocast) {
    require_owner();
    PrefillReport report;
    report.tokens = static_cast<std::uint32_t>(tokens.size());
    if (tokens.empty())
        return report;
    const auto started = Clock::now();
    pending_.reset();
    take_back();
    if (cached_.size() + tokens.size() > n_ctx())
        throw Error("session.context_full", {{"n_ctx", static_cast<std::int64_t>(n_ctx())},
                                             {"cached", static_cast<std::int64_t>(cached_.size())},
                                             {"tokens", static_cast<std::int64_t>(tokens.size())}});
    check_cancel();
    report.used_prefiller = with_prefiller && prefiller_ && report.tokens >= min_prefill_tokens;
    if (!report.used_prefiller)
        restore_decoder();
    std::optional<Autocast> autocasting;
    if (autocast && !report.used_prefiller)
        autocasting.emplace();
    report.used_autocast = autocasting.has_value();
    std::optional<TiledAttention> tiled;
    if (report.used_prefiller || report.used_autocast || holds_nvfp4_)
        tiled.emplace(attention_tokens_);
    std::optional<FourBitActivations> rounding;
    if (four_bits_)
        rounding.emplace();

    // Passes of nearly equal width: none is too narrow for prefill weights, and each hides as much reading.
    const std::uint32_t widest =
        report.used_prefiller ? micro_batch_ : std::min(micro_batch_, decoder_micro_batch);
    report.passes = (report.tokens + widest - 1) / widest;
    const std::uint32_t width = report.tokens / report.passes;
    const std::uint32_t wider = report.tokens % report.passes;
    report.micro_batch = width + (wider > 0 ? 1 : 0);
    const auto first = static_cast<std::uint32_t>(cached_.size());
    {
        Reading reading(*this, report.used_prefiller, progress, report.tokens, report.passes);
        const std::int32_t* next = tokens.data();
        for (std::uint32_t pass = 0; pass < report.passes; ++pass) {
            const std::uint32_t count = width + (pass < wider ? 1 : 0);
            const auto length = static_cast<std::uint32_t>(cached_.size());
            reading.start_pass(pass);
            try {
                evaluate(next, count);
                reading.rethrow();
                if (!reading.complete())
                    throw Error("phase.incomplete");
                if (report.used_prefiller)
                    prefiller_->check_unchanged();
            } catch (...) {
                rewind(length, true);
                reading.rethrow(); // the cause, rather than the failed evaluation that it led to
                throw;
            }
            cached_.insert(cached_.end(), next, next + count);
            has_logits_ = true;
            next += count;
            reading.pass_done(count);
            if (pass + 1 < report.passes)
                check_cancel();
        }
        if (report.used_prefiller) {
            try {
                prefiller_->finish();
            } catch (const Error& error) {
                rewind(first, true);
                throw error.code() == "stream.cancelled" ? Error("cancelled") : error;
            }
            const StreamStats stats = prefiller_->stream_stats();
            report.bytes_read = stats.bytes;
            report.load_seconds = stats.load_seconds;
            report.wait_seconds = stats.wait_seconds;
        }
    }
    report.seconds = seconds_since(started);
    reading_seconds_ = report.seconds;
    return report;
}

double Session::autocast_share(std::uint32_t tokens) const {
    require_owner();
    double all = 0;
    double taken = 0;
    for (const ggml_tensor* tensor : table_.decoder_tensors()) {
        if (ggml_n_dims(tensor) < 2 || !std::string_view(tensor->name).starts_with("blk."))
            continue;
        all += static_cast<double>(ggml_nelements(tensor));
        if (autocast_takes(tensor, tokens))
            taken += static_cast<double>(ggml_nelements(tensor));
    }
    return all > 0 ? taken / all : 0;
}

std::vector<double> Session::losses(const std::vector<std::int32_t>& tokens, bool autocast) {
    require_owner();
    check_cancel();
    restore_decoder();
    const auto count = static_cast<std::uint32_t>(tokens.size());
    const std::uint32_t width = std::min({micro_batch_, decoder_micro_batch, std::max(count, 1U)});
    ContextParams params = params_;
    params.n_ctx = std::max(count, 1U);
    const Context context = make_context(params, width, width);
    if (!context)
        throw Error("context.failed",
                    {{"n_ctx", static_cast<std::int64_t>(count)}, {"why", take_last_library_error()}});
    std::optional<Autocast> autocasting;
    std::optional<TiledAttention> tiled;
    if (autocast) {
        autocasting.emplace();
        tiled.emplace(attention_tokens_);
    }
    struct FreeBatch {
        llama_batch batch;
        ~FreeBatch() { llama_batch_free(batch); }
    } owned{llama_batch_init(static_cast<std::int32_t>(width), 0, 1)};
    llama_batch& batch = owned.batch;
    const auto vocabulary = llama_vocab_n_tokens(model_.vocab());
    std::vector<double> found;
    for (std::uint32_t first = 0; first + 1 < count; first += width) {
        check_cancel();
        batch.n_tokens = static_cast<std::int32_t>(std::min(width, count - first));
        for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
            batch.token[i] = tokens[first + static_cast<std::uint32_t>(i)];
            batch.pos[i] = static_cast<llama_pos>(first) + i;
            batch.n_seq_id[i] = 1;
            batch.seq_id[i][0] = 0;
            batch.logits[i] = 1;
        }
        const std::int32_t result = llama_decode(context.get(), batch);
        llama_synchronize(context.get());
        if (result != 0)
            throw Error("session.evaluation_failed",
                        {{"result", static_cast<std::int64_t>(result)}, {"why", take_last_library_error()}});
        for (std::int32_t i = 0; i < batch.n_tokens; ++i) {
            const std::size_t next = first + static_cast<std::size_t>(i) + 1;
            if (next == tokens.size())
                break;
            const float* logits = llama_get_logits_ith(context.get(), i);
            const double largest = *std::max_element(logits, logits + vocabulary);
            double sum = 0;
            for (std::int32_t token = 0; token < vocabulary; ++token)
                sum += std::exp(logits[token] - largest);
            found.push_back(std::log(sum) + largest - logits[tokens[next]]);
        }
    }
    return found;
}

void Session::start_sampling(const SamplerParams& params) {
    require_owner();
    sampler_.emplace(params, model_.vocab());
    pending_.reset();
    drafting_.start(std::exchange(reading_seconds_, 0), params.seed);
    if (context_drafter_)
        context_drafter_->sample_as(params, proposals_ == Proposals::drawn);
    const auto window = static_cast<std::size_t>(std::max(params.penalty_last_n, 0));
    for (std::size_t i = cached_.size() - std::min(window, cached_.size()); i < cached_.size(); ++i)
        sampler_->accept(cached_[i]);
}

void Session::constrain(const std::string& grammar) {
    require_owner();
    if (!sampler_)
        throw Error("session.nothing_read");
    sampler_->constrain(grammar);
}

void Session::use_drafts(bool on, std::size_t always, Proposals proposals) {
    require_owner();
    proposals_ = proposals;
    drafting_.drop();
    drafting_.always(always);
    use_drafts_ = on;
}

DraftStatistics Session::draft_statistics() {
    require_owner();
    drafting_.drop(); // its account is closed; what is in the cache stays of use
    return drafting_.statistics();
}

std::size_t Session::most_drafted() const {
    const bool recurrent = llama_model_is_hybrid(model_.get()) || llama_model_is_recurrent(model_.get());
    const std::size_t snapshots = recurrent ? llama_n_rs_seq(context_.get()) : max_draft;
    return std::min({snapshots, max_draft, static_cast<std::size_t>(micro_batch_ - 1)});
}

std::int32_t Session::next_token() {
    require_owner();
    if (!sampler_)
        throw Error("session.nothing_read");
    if (pending_ && use_drafts_ && (ahead_.empty() || ahead_.front() != *pending_)) {
        const std::size_t room = n_ctx() - std::min<std::size_t>(n_ctx(), cached_.size() + 1);
        const std::vector<std::int32_t> guesses =
            drafting_.propose(cached_, *pending_, std::min(most_drafted(), room), features_);
        const auto started = Clock::now();
        evaluate_next(*pending_, guesses);
        drafting_.passed(seconds_since(started));
    } else if (pending_) {
        evaluate_next(*pending_, {});
    }
    pending_.reset();
    check_cancel();
    if (!has_logits_)
        throw Error("session.nothing_read");
    SamplerChoice choice(*sampler_, context_.get(), output_);
    pending_ = use_drafts_ ? drafting_.next(choice) : choice.sample(0);
    return *pending_;
}

std::vector<float> Session::distribution() {
    require_owner();
    if (!sampler_ || !has_logits_)
        throw Error("session.nothing_read");
    return sampler_->distribution(context_.get(), output_);
}

void Session::feed(std::int32_t token, const std::vector<std::int32_t>& guesses) {
    require_owner();
    drafting_.drop();
    evaluate_next(token, guesses);
}

void Session::evaluate_next(std::int32_t token, const std::vector<std::int32_t>& guesses) {
    check_cancel();
    if (!ahead_.empty() && ahead_.front() == token) {
        ahead_.pop_front();
        cached_.push_back(token);
        ++output_;
        has_logits_ = true;
        return;
    }
    take_back();
    if (cached_.size() + 1 + guesses.size() > n_ctx() || guesses.size() > most_drafted())
        throw Error("session.context_full", {{"n_ctx", static_cast<std::int64_t>(n_ctx())},
                                             {"cached", static_cast<std::int64_t>(cached_.size())},
                                             {"tokens", static_cast<std::int64_t>(1 + guesses.size())}});
    restore_decoder();
    const auto length = static_cast<std::uint32_t>(cached_.size());
    std::vector<std::int32_t> tokens{token};
    tokens.insert(tokens.end(), guesses.begin(), guesses.end());
    try {
        evaluate(tokens.data(), static_cast<std::uint32_t>(tokens.size()), !guesses.empty());
    } catch (...) {
        pending_.reset();
        rewind(length, true);
        throw;
    }
    cached_.push_back(token);
    ahead_.assign(guesses.begin(), guesses.end());
    has_logits_ = true;
}

// The library's cache ends where the cached tokens do; their last one's logits stay.
void Session::take_back() {
    if (ahead_.empty())
        return;
    ahead_.clear();
    if (llama_memory_seq_rm(llama_get_memory(context_.get()), 0, static_cast<llama_pos>(cached_.size()), -1))
        return;
    // Refused, though drafts are no longer than what can be taken back: what was lost is read again.
    const std::vector<std::int32_t> known = cached_;
    std::size_t at = rewind(static_cast<std::uint32_t>(known.size()), true);
    while (at < known.size()) {
        const std::size_t count = std::min<std::size_t>(known.size() - at, micro_batch_);
        evaluate(known.data() + at, static_cast<std::uint32_t>(count));
        at += count;
        cached_.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(at));
    }
    has_logits_ = true;
}

std::vector<float> Session::logits() const {
    require_owner();
    const float* values = has_logits_ ? llama_get_logits_ith(context_.get(), output_) : nullptr;
    if (!values)
        throw Error("session.nothing_read");
    return {values, values + llama_vocab_n_tokens(model_.vocab())};
}

const std::vector<std::int32_t>& Session::cached_tokens() const {
    require_owner();
    return cached_;
}

bool Session::can_truncate() const {
    return !llama_model_is_hybrid(model_.get()) && !llama_model_is_recurrent(model_.get()) &&
           llama_model_n_swa(model_.get()) == 0;
}

std::vector<std::uint32_t> Session::checkpoints() const {
    require_owner();
    std::vector<std::uint32_t> lengths;
    for (const Checkpoint& checkpoint : checkpoints_)
        lengths.push_back(checkpoint.length);
    return lengths;
}

void Session::save_checkpoint() {
    require_owner();
    take_back();
    const auto length = static_cast<std::uint32_t>(cached_.size());
    if (can_truncate() || length == 0)
        return;
    if (!checkpoints_.empty() && checkpoints_.back().length == length)
        return;
    constexpr llama_state_seq_flags flags = LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY;
    Checkpoint checkpoint{.length = length, .state = {}};
    checkpoint.state.resize(llama_state_seq_get_size_ext(context_.get(), 0, flags));
    const std::size_t written = llama_state_seq_get_data_ext(context_.get(), checkpoint.state.data(),
                                                             checkpoint.state.size(), 0, flags);
    if (written == 0)
        return;
    checkpoint.state.resize(written);
    checkpoints_.push_back(std::move(checkpoint));
}

void Session::drop_checkpoint(std::uint32_t length) {
    require_owner();
    std::erase_if(checkpoints_, [&](const Checkpoint& saved) { return saved.length == length; });
}

std::uint32_t Session::keep(std::uint32_t length) {
    require_owner();
    take_back();
    if (length >= cached_.size())
        return static_cast<std::uint32_t>(cached_.size());
    pending_.reset();
    return rewind(length, false);
}

// `state_spoiled`: an evaluation began after `length` and did not end, so that recurrent state is lost even
// if the cache is no longer than that.
std::uint32_t Session::rewind(std::uint32_t length, bool state_spoiled) {
    has_logits_ = false;
    ahead_.clear();
    llama_memory_t memory = llama_get_memory(context_.get());
    const auto position = static_cast<llama_pos>(length);
    const bool recurrent = llama_model_is_hybrid(model_.get()) || llama_model_is_recurrent(model_.get());
    const llama_pos window = llama_model_n_swa(model_.get());
    const bool window_held =
        window == 0 || llama_memory_seq_pos_min(memory, 0) <= std::max(0, position - window);
    const bool unchanged = !state_spoiled && length == cached_.size();

    std::uint32_t kept = 0;
    if (length > 0 && (unchanged || (!recurrent && window_held)) &&
        llama_memory_seq_rm(memory, 0, position, -1)) {
        kept = length;
    } else {
        while (!checkpoints_.empty() && checkpoints_.back().length > length)
            checkpoints_.pop_back();
        if (!checkpoints_.empty()) {
            const Checkpoint& saved = checkpoints_.back();
            if (llama_state_seq_set_data_ext(context_.get(), saved.state.data(), saved.state.size(), 0,
                                             LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) != 0 &&
                llama_memory_seq_rm(memory, 0, static_cast<llama_pos>(saved.length), -1))
                kept = saved.length;
        }
    }
    if (kept == 0)
        llama_memory_clear(memory, true);
    while (!checkpoints_.empty() && checkpoints_.back().length > kept)
        checkpoints_.pop_back();
    cached_.resize(std::min<std::size_t>(kept, cached_.size()));
    drafting_.forget(cached_.size());
    features_.truncate(cached_.size());
    return kept;
}

void Session::cancel() noexcept {
    cancelled_ = true;
    const std::scoped_lock lock(streaming_mutex_);
    if (streaming_)
        streaming_->cancel();
}

void Session::reset_cancel() noexcept {
    cancelled_ = false;
}

void Session::restore_decoder() {
    require_owner();
    if (!decoder_dirty_)
        return;
    if (prefiller_)
        prefiller_->restore();
    decoder_dirty_ = false;
}

double Session::restore_seconds() const {
    return prefiller_ ? prefiller_->restore_seconds() : 0;
}

std::uint64_t Session::decoder_checksum() {
    restore_decoder();
    std::uint64_t hash = 0xcbf29ce484222325ULL; // FNV-1a, eight bytes at a time
    for (const ggml_tensor* tensor : table_.decoder_tensors()) {
        std::vector<std::byte> copy;
        if (device_of(tensor))
            copy = read_allocated(tensor);
        const std::byte* bytes = copy.empty() ? static_cast<const std::byte*>(tensor->data) : copy.data();
        const std::size_t size = allocated_size(tensor);
        for (std::size_t i = 0; i < size; i += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + i, std::min<std::size_t>(8, size - i));
            hash = (hash ^ word) * 0x100000001b3ULL;
            hash ^= hash >> 29;
        }
    }
    return hash;
}

bool Session::on_node(ggml_tensor* node, bool ask, void* data) noexcept {
    auto* self = static_cast<Session*>(data);
    return self->reading_ ? self->reading_->on_node(node, ask) : !ask;
}

} // namespace twofold
