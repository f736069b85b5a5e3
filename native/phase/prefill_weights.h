// The prefiller's weights inside the engine: bound to the prefill table, resident or streamed.
#pragma once

#include "disk/file_reader.h"
#include "phase/block_counter.h"
#include "phase/carve_out.h"
#include "phase/graph_scan.h"
#include "phase/layer_table.h"
#include "phase/product_scaler.h"
#include "stream/block_streamer.h"
#include "stream/slot_layout.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

struct ggml_backend_sched;
struct ggml_context;
struct ggml_backend_buffer;
struct ggml_cgraph;

namespace twofold {

// One NVFP4 weight in a prefiller's files; named and shaped as the decoder's.
struct PrefillerTensor {
    std::string name;
    int block = 0;
    FileRange bytes;
    std::int64_t columns = 0; // K, the products' inner dimension
    std::int64_t rows = 0;    // N
    float scale = 1.0F;       // per tensor, multiplied onto the product
};

struct PrefillerFiles {
    std::vector<std::string> paths;
    std::vector<PrefillerTensor> tensors;
};

// Where the decoder's own weights are on disk, for the carve-out.
struct DecoderTensor {
    std::string name;
    FileRange bytes;
};

struct DecoderFiles {
    std::vector<std::string> paths;
    std::vector<DecoderTensor> tensors;
    std::vector<FileIdentity> loaded; // the files as the model was loaded from them; the session knows
};

enum class Tier : int {
    device = 0, // resident in the memory that computes
    disk = 2,   // streamed through slots
};

struct PrefillPlan {
    std::vector<Tier> tiers;     // one for each block; empty means all on disk
    std::uint32_t slots = 2;     // buffers that streamed blocks pass through
    bool carve_out = true;       // slots in idle decoder weights, else in memory of their own
    std::uint32_t in_flight = 4; // disk requests at once
    std::uint64_t request_bytes = std::uint64_t{1} << 20;
};

// What a plan came to.
struct PrefillMemory {
    std::uint64_t resident_bytes = 0;       // blocks of tier device, and scales
    std::uint64_t slot_bytes = 0;           // slots, lent or allocated
    std::uint64_t allocated_slot_bytes = 0; // the part that did not fit into the carve-out
    std::uint64_t lent_bytes = 0;           // decoder weights that a prefill overwrites and restores
    std::uint32_t slots = 0;
    std::uint32_t streamed_blocks = 0;
    std::uint32_t resident_blocks = 0;
    bool direct = true; // disk reads bypass the page cache
};

class PrefillWeights {
  public:
    // Binds every weight. Throws Error "phase.no_slot", "phase.shape" or "phase.unknown_tensor".
    PrefillWeights(LayerTable& table, const PrefillerFiles& files, const PrefillPlan& plan);
    ~PrefillWeights();
    PrefillWeights(const PrefillWeights&) = delete;
    PrefillWeights& operator=(const PrefillWeights&) = delete;

    [[nodiscard]] const std::vector<BoundWeight>& bound() const { return bound_; }

    // Allocates slots and resident blocks and reads the latter; `uses` comes from scan_prefill_graph and
    // `scheduler` will evaluate such graphs. `progress` takes bytes done and total, and answers false to
    // stop (Error "cancelled").
    void allocate(const std::vector<WeightUse>& uses, ggml_backend_sched* scheduler,
                  const DecoderFiles& decoder,
                  const std::function<bool(std::uint64_t, std::uint64_t)>& progress);
    [[nodiscard]] const PrefillMemory& memory() const { return memory_; }

    // One prompt: start() .. on_node() for each node of `passes` passes .. stop().
    void start(int passes);
    void start_pass();
    // Called before a node is computed: waits for its block's bytes. True when after_node() must follow.
    bool before_node(const ggml_tensor* node);
    // Called when such a node has been computed. True when it ends its block, which is over then.
    bool after_node(ggml_tensor* node);
    [[nodiscard]] bool pass_complete() const { return counter_.complete(); }
    // Throws Error "disk.file_changed" when what was streamed so far cannot be trusted.
    void check_unchanged() const;
    // All passes are done. Throws Error "disk.file_changed" when a file was rewritten meanwhile.
    void finish();
    // Ends the run in any state; afterwards nothing writes to a slot. Starts restoring the carve-out.
    void stop() noexcept;
    // Wakes a wait in before_node from another thread; it throws Error "stream.cancelled".
    void cancel() noexcept;

    // Returns when the decoder's weights are whole again; throws the disk's Error.
    void restore();
    [[nodiscard]] bool decoder_intact() const;
    [[nodiscard]] double restore_seconds() const;

    [[nodiscard]] std::size_t blocks_in_pass() const { return counter_.block_count(); }
    [[nodiscard]] StreamStats stream_stats() const;

  private:
    struct PassBlock {
        int block = 0;                     // number in the model
        std::vector<std::size_t> weights;  // indices into bound_
        std::vector<FileRange> ranges;     // one for each of them
        std::vector<Placement> placements; // one for each slot; empty when resident
        std::size_t stream_index = 0;      // place among the streamed blocks
        // Valid once slots are placed.
        [[nodiscard]] bool streamed() const { return !placements.empty(); }
    };

    void bind_weight(LayerTable& table, const PrefillerTensor& tensor, std::size_t index);
    void group_blocks(const std::vector<WeightUse>& uses);
    void place_resident(const std::function<bool(std::uint64_t, std::uint64_t)>& progress);
    void place_slots(const DecoderFiles& decoder);
    void end_block(const PassBlock& block);
    [[nodiscard]] bool streams(const PassBlock& block) const; // by the plan's tiers
    void point(const PassBlock& block, const Placement& placement);

    LayerTable& table_;
    PrefillerFiles files_;
    PrefillPlan plan_;
    PrefillMemory memory_;

    struct FreeContext {
        void operator()(ggml_context* context) const noexcept;
    };
    struct FreeBuffer {
        void operator()(ggml_backend_buffer* buffer) const noexcept;
    };
    using Buffer = std::unique_ptr<ggml_backend_buffer, FreeBuffer>;
    std::unique_ptr<ggml_context, FreeContext> context_;
    std::vector<BoundWeight> bound_;
    Buffer scales_;
    Buffer resident_;
    std::vector<Buffer> slot_buffers_;
    Buffer slot_view_; // a plain CPU buffer over whatever memory the slots are in

    std::vector<PassBlock> pass_; // blocks in the order of their use
    std::vector<const PassBlock*> streamed_;
    BlockCounter counter_;
    std::optional<std::size_t> ending_; // the block that the node being computed ends
    std::optional<ProductScaler> scaler_;
    std::unordered_map<const ggml_tensor*, float> unscaled_; // weights whose scale the graph does not apply

    std::unique_ptr<CarveOut> carve_out_;
    std::unique_ptr<FileReader> reader_;
    std::unique_ptr<BlockStreamer> streamer_;
};

} // namespace twofold
