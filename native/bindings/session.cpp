// Binds session/session.h and the parameter structures that it takes.
#include "session/session.h"
#include "bindings.h"
#include "model/library_log.h"

#include <llama.h>

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace twofold::bindings {
namespace {

auto floats(std::vector<float> found) {
    auto* values = new std::vector<float>(std::move(found));
    nb::capsule owner(values, [](void* data) noexcept { delete static_cast<std::vector<float>*>(data); });
    return nb::ndarray<nb::numpy, float, nb::ndim<1>>(values->data(), {values->size()}, owner);
}

void bind_parameters(nb::module_& m) {
    nb::class_<ModelParams>(m, "ModelParams")
        .def(nb::init<>())
        .def_rw("paths", &ModelParams::paths)
        .def_rw("writable", &ModelParams::writable)
        .def_rw("use_extra_bufts", &ModelParams::use_extra_bufts)
        .def_rw("n_gpu_layers", &ModelParams::n_gpu_layers)
        .def_rw("devices", &ModelParams::devices);

    nb::class_<ContextParams>(m, "ContextParams")
        .def(nb::init<>())
        .def_rw("n_ctx", &ContextParams::n_ctx)
        .def_rw("micro_batch", &ContextParams::micro_batch)
        .def_rw("compute_budget", &ContextParams::compute_budget)
        .def_rw("n_threads", &ContextParams::n_threads)
        .def_rw("snapshots", &ContextParams::snapshots);

    nb::class_<SamplerParams>(m, "SamplerParams")
        .def(nb::init<>())
        .def_rw("temperature", &SamplerParams::temperature)
        .def_rw("top_k", &SamplerParams::top_k)
        .def_rw("top_p", &SamplerParams::top_p)
        .def_rw("min_p", &SamplerParams::min_p)
        .def_rw("repeat_penalty", &SamplerParams::repeat_penalty)
        .def_rw("frequency_penalty", &SamplerParams::frequency_penalty)
        .def_rw("presence_penalty", &SamplerParams::presence_penalty)
        .def_rw("penalty_last_n", &SamplerParams::penalty_last_n)
        .def_rw("seed", &SamplerParams::seed);

    nb::enum_<Proposals>(m, "Proposals")
        .value("likeliest", Proposals::likeliest)
        .value("drawn", Proposals::drawn);

    nb::enum_<Tier>(m, "Tier")
        .value("device", Tier::device)
        .value("host", Tier::host)
        .value("disk", Tier::disk);

    nb::class_<PrefillPlan>(m, "PrefillPlan")
        .def(nb::init<>())
        .def_rw("tiers", &PrefillPlan::tiers)
        .def_rw("slots", &PrefillPlan::slots)
        .def_rw("carve_out", &PrefillPlan::carve_out)
        .def_rw("in_flight", &PrefillPlan::in_flight)
        .def_rw("request_bytes", &PrefillPlan::request_bytes)
        .def_rw("asynchronous", &PrefillPlan::asynchronous)
        .def_rw("trace_limit", &PrefillPlan::trace_limit)
        .def_prop_rw(
            "on_upload", [](const PrefillPlan& plan) { return plan.hooks.on_upload; },
            [](PrefillPlan& plan, OnUpload call) { plan.hooks.on_upload = std::move(call); },
            "Called with the block's number before each tensor's copy to a device, on another thread.")
        .def_prop_rw(
            "on_compute", [](const PrefillPlan& plan) { return plan.hooks.on_compute; },
            [](PrefillPlan& plan, std::function<void(int)> call) { plan.hooks.on_compute = std::move(call); },
            "Called with the block's number before a streamed block is computed.");

    nb::class_<PrefillerFiles>(m, "PrefillerFiles")
        .def(nb::init<>())
        .def_rw("paths", &PrefillerFiles::paths)
        .def(
            "add",
            [](PrefillerFiles& files, std::string name, int block, std::size_t file, std::uint64_t offset,
               std::size_t size, std::int64_t columns, std::int64_t rows, float scale) {
                files.tensors.push_back({std::move(name), block, {file, offset, size}, columns, rows, scale});
            },
            "name"_a, "block"_a, "file"_a, "offset"_a, "size"_a, "columns"_a, "rows"_a, "scale"_a,
            "Adds one NVFP4 weight of rows x columns; offset and size in bytes.");

    nb::class_<DecoderFiles>(m, "DecoderFiles")
        .def(nb::init<>())
        .def_rw("paths", &DecoderFiles::paths)
        .def(
            "add",
            [](DecoderFiles& files, std::string name, std::size_t file, std::uint64_t offset,
               std::size_t size) { files.tensors.push_back({std::move(name), {file, offset, size}}); },
            "name"_a, "file"_a, "offset"_a, "size"_a, "Adds one weight; offset and size in bytes.");
}

void bind_reports(nb::module_& m) {
    nb::class_<PrefillProgress>(m, "PrefillProgress")
        .def_ro("tokens_done", &PrefillProgress::tokens_done)
        .def_ro("tokens_total", &PrefillProgress::tokens_total)
        .def_ro("blocks_done", &PrefillProgress::blocks_done)
        .def_ro("blocks_total", &PrefillProgress::blocks_total)
        .def_ro("pass_index", &PrefillProgress::pass)
        .def_ro("passes", &PrefillProgress::passes)
        .def_ro("bytes_read", &PrefillProgress::bytes_read);

    nb::class_<PrefillReport>(m, "PrefillReport")
        .def_ro("used_prefiller", &PrefillReport::used_prefiller)
        .def_ro("used_autocast", &PrefillReport::used_autocast)
        .def_ro("tokens", &PrefillReport::tokens)
        .def_ro("passes", &PrefillReport::passes)
        .def_ro("micro_batch", &PrefillReport::micro_batch)
        .def_ro("seconds", &PrefillReport::seconds)
        .def_ro("bytes_read", &PrefillReport::bytes_read)
        .def_ro("load_seconds", &PrefillReport::load_seconds)
        .def_ro("wait_seconds", &PrefillReport::wait_seconds);

    nb::class_<PrefillMemory>(m, "PrefillMemory")
        .def_ro("resident_bytes", &PrefillMemory::resident_bytes)
        .def_ro("slot_bytes", &PrefillMemory::slot_bytes)
        .def_ro("allocated_slot_bytes", &PrefillMemory::allocated_slot_bytes)
        .def_ro("lent_bytes", &PrefillMemory::lent_bytes)
        .def_ro("slots", &PrefillMemory::slots)
        .def_ro("streamed_blocks", &PrefillMemory::streamed_blocks)
        .def_ro("resident_blocks", &PrefillMemory::resident_blocks)
        .def_ro("host_bytes", &PrefillMemory::host_bytes)
        .def_ro("staging_bytes", &PrefillMemory::staging_bytes)
        .def_ro("host_blocks", &PrefillMemory::host_blocks)
        .def_ro("four_bit_weights", &PrefillMemory::four_bit_weights)
        .def_ro("direct", &PrefillMemory::direct)
        .def_ro("pinned", &PrefillMemory::pinned)
        .def_ro("asynchronous", &PrefillMemory::asynchronous)
        .def_ro("devices", &PrefillMemory::devices);

    nb::class_<StreamEvent>(m, "StreamEvent", "What happened to a block; start and end in seconds.")
        .def_prop_ro("kind",
                     [](const StreamEvent& event) {
                         constexpr const char* names[] = {"load", "upload", "wait", "compute"};
                         return names[static_cast<std::size_t>(event.kind)];
                     })
        .def_ro("pass_index", &StreamEvent::pass)
        .def_ro("block", &StreamEvent::block)
        .def_ro("start", &StreamEvent::start)
        .def_ro("end", &StreamEvent::end);

    nb::class_<DraftStatistics>(m, "DraftStatistics")
        .def_ro("tokens", &DraftStatistics::tokens)
        .def_ro("plain_passes", &DraftStatistics::plain_passes)
        .def_ro("verifications", &DraftStatistics::verifications)
        .def_ro("drafted", &DraftStatistics::drafted)
        .def_ro("accepted", &DraftStatistics::accepted)
        .def_ro("drafted_at", &DraftStatistics::drafted_at)
        .def_ro("accepted_at", &DraftStatistics::accepted_at)
        .def_ro("seconds", &DraftStatistics::seconds)
        .def_ro("baseline_seconds", &DraftStatistics::baseline_seconds)
        .def_prop_ro("tau", &DraftStatistics::tau);

    nb::class_<SessionMemory>(m, "SessionMemory")
        .def_ro("weights", &SessionMemory::weights)
        .def_ro("context", &SessionMemory::context)
        .def_ro("compute", &SessionMemory::compute)
        .def_ro("on_devices", &SessionMemory::on_devices)
        .def_ro("drafter", &SessionMemory::drafter);
}

} // namespace

void bind_session(nb::module_& m) {
    bind_parameters(m);
    bind_reports(m);

    using release = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<AttentionHeads>(m, "AttentionHeads")
        .def_ro("heads", &AttentionHeads::heads)
        .def_ro("key_heads", &AttentionHeads::key_heads)
        .def_ro("key_size", &AttentionHeads::key_size)
        .def_ro("value_size", &AttentionHeads::value_size)
        .def_ro("type", &AttentionHeads::type);
    nb::class_<Session>(m, "Session",
                        "One model, one context, one KV cache. Belongs to the thread that made it; only "
                        "cancel() may be called from another. Errors arrive as NativeError.")
        .def(nb::init<const ModelParams&, const ContextParams&, const std::function<bool(float)>&>(),
             "model"_a, "context"_a, "progress"_a = nb::none(), release())
        .def("attach", &Session::attach, "prefiller"_a, "decoder"_a, "plan"_a, "progress"_a = nb::none(),
             release())
        .def("detach", &Session::detach, release())
        .def_prop_ro("attached", &Session::attached)
        .def("prefill", &Session::prefill, "tokens"_a, "with_prefiller"_a, "progress"_a = nb::none(),
             "autocast"_a = false, release(), "Reads tokens after what the cache holds.")
        .def("autocast_share", &Session::autocast_share, "tokens"_a,
             "The share of the blocks' linear weights that autocast multiplies in such a prompt.")
        .def("losses", &Session::losses, "tokens"_a, "autocast"_a = false, release(),
             "Negative log-likelihood of each token but the first, in nats, read in a context of its own.")
        .def("start_sampling", &Session::start_sampling, "params"_a)
        .def("constrain", &Session::constrain, "grammar"_a,
             "From the next token on, samples only what the grammar (GBNF) allows.")
        .def("next_token", &Session::next_token, release())
        .def("use_drafts", &Session::use_drafts, "on"_a, "always"_a = 0, "proposals"_a = Proposals::likeliest,
             "Whether next_token() may evaluate drafted tokens along with a sampled one.")
        .def("draft_with", &Session::draft_with, "model"_a, "progress"_a = nb::none(), release(),
             "From now on, a second model of the same vocabulary drafts.")
        .def("feed", &Session::feed, "token"_a, "guesses"_a = std::vector<std::int32_t>(), release(),
             "Evaluates a token with the decoder's weights, and in the same pass what may follow it.")
        .def_prop_ro("most_drafted", &Session::most_drafted)
        .def_prop_ro("draft_statistics", [](Session& session) { return session.draft_statistics(); })
        .def(
            "distribution", [](Session& session) { return floats(session.distribution()); },
            "The chances of each token in next_token(), float32, shape [n_vocab].")
        .def(
            "logits", [](const Session& session) { return floats(session.logits()); },
            "Logits after the last evaluated token, float32, shape [n_vocab].")
        .def_prop_ro("cached_tokens", &Session::cached_tokens)
        .def_prop_ro("can_truncate", &Session::can_truncate)
        .def_prop_ro("checkpoints", &Session::checkpoints)
        .def("save_checkpoint", &Session::save_checkpoint, release())
        .def("drop_checkpoint", &Session::drop_checkpoint, "length"_a)
        .def("keep", &Session::keep, "length"_a, release(),
             "Forgets everything after the first `length` tokens; returns how many remain.")
        .def("cancel", &Session::cancel, release())
        .def("reset_cancel", &Session::reset_cancel)
        .def("decoder_checksum", &Session::decoder_checksum, release())
        .def("restore_decoder", &Session::restore_decoder, release())
        .def_prop_ro("restore_seconds", &Session::restore_seconds)
        .def_prop_ro("n_ctx", &Session::n_ctx)
        .def_prop_ro("micro_batch", &Session::micro_batch)
        .def_prop_ro("memory", &Session::memory)
        .def_prop_ro("guarded_weights", &Session::guarded_weights,
                     "The decoder's weights that never meet activations of fewer than 8 bits.")
        .def_prop_ro("attention_heads", &Session::attention_heads,
                     "Of the model's attention; None where the library does not fuse it.")
        .def("set_attention_tokens", &Session::set_attention_tokens, "tokens"_a,
             "From how many tokens on a prompt's attention is computed in tiles; 0: never.")
        .def_prop_ro("prefill_memory", &Session::prefill_memory)
        .def_prop_ro("stream_events", &Session::stream_events,
                     "What happened to each streamed block of the last prompt, as far as the plan keeps it.")
        .def_prop_ro("architecture", [](const Session& s) { return s.model().architecture(); })
        .def_prop_ro("chat_template", [](const Session& s) { return s.model().chat_template(); })
        .def("metadata", [](const Session& s, const std::string& key) { return s.model().metadata(key); })
        .def(
            "tokenize",
            [](const Session& s, const std::string& text, bool add_special, bool parse_special) {
                return s.model().tokenize(text, add_special, parse_special);
            },
            "text"_a, "add_special"_a, "parse_special"_a)
        .def(
            "piece",
            [](const Session& s, std::int32_t token, bool special) {
                const std::string bytes = s.model().piece(token, special);
                return nb::bytes(bytes.data(), bytes.size());
            },
            "token"_a, "special"_a = false)
        .def_prop_ro("n_vocab", [](const Session& s) { return llama_vocab_n_tokens(s.model().vocab()); })
        .def_prop_ro("bos", [](const Session& s) { return llama_vocab_bos(s.model().vocab()); })
        .def_prop_ro("eos", [](const Session& s) { return llama_vocab_eos(s.model().vocab()); })
        .def_prop_ro("add_bos", [](const Session& s) { return llama_vocab_get_add_bos(s.model().vocab()); })
        .def("ends_generation", [](const Session& s, std::int32_t token) {
            return llama_vocab_is_eog(s.model().vocab(), token);
        });

    m.def("library_log_tail", &library_log_tail, "count"_a = 100);
    m.def("system_info", [] { return std::string(llama_print_system_info()); });
    m.attr("min_prefill_tokens") = min_prefill_tokens;
}

} // namespace twofold::bindings
