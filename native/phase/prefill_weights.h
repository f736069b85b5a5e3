// The prefiller's weights inside the engine: bound to the prefill table, resident or streamed, each block in
// the memory of the device that holds the decoder's block.
#pragma once

#include "disk/file_reader.h"
#include "phase/block_counter.h"
#include "phase/carve_out.h"
#include "phase/device_memory.h"
#include "phase/device_uploader.h"
#include "phase/graph_scan.h"
#include "phase/layer_table.h"
#include "phase/product_scaler.h"
#include "stream/block_streamer.h"
#include "stream/slot_layout.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

struct ggml_backend_device;
struct ggml_backend_sched;
struct ggml_cgraph;
struct ggml_context;

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
    host = 1,   // resident in the host's memory, pinned where the device can; the same where that computes
    disk = 2,   // streamed through slots
};

// What tests watch and disturb; what a function throws ends the prompt. Blocks by their number in the model.
struct PrefillHooks {
    OnUpload on_upload;                  // on the upload thread, before each tensor's copy
    std::function<void(int)> on_compute; // on the session's thread, before a streamed block is computed
};

struct PrefillPlan {
    std::vector<Tier> tiers;     // one for each block; empty means all on disk
    std::uint32_t slots = 2;     // buffers that streamed blocks pass through
    bool carve_out = true;       // slots in idle decoder weights, else in memory of their own
    bool asynchronous = true;    // uploads beside compute, where the device can
    std::uint32_t in_flight = 4; // disk requests at once
    std::uint64_t request_bytes = std::uint64_t{1} << 20;
    std::size_t trace_limit = 0; // events kept of each prompt
    PrefillHooks hooks;
};

// What a plan came to.
struct PrefillMemory {
    std::uint64_t resident_bytes = 0;       // blocks of tier device, and scales
    std::uint64_t host_bytes = 0;           // blocks of tier host that a device computes
    std::uint64_t staging_bytes = 0;        // host memory between disk and devices
    std::uint64_t slot_bytes = 0;           // slots, lent or allocated
    std::uint64_t allocated_slot_bytes = 0; // the part that did not fit into the carve-out
    std::uint64_t lent_bytes = 0;           // decoder weights that a prefill overwrites and restores
    std::uint32_t slots = 0;
    std::uint32_t streamed_blocks = 0;
    std::uint32_t resident_blocks = 0;
    std::uint32_t host_blocks = 0;
    std::uint32_t four_bit_weights = 0; // that may meet 4-bit activations
    bool direct = true;                 // disk reads bypass the page cache
    bool pinned = true;                 // all host memory that devices copy from
    bool asynchronous = true;           // uploads run beside compute
    std::vector<std::string> devices;   // that hold prefill weights; none when the host does
};

class PrefillWeights {
  public:
    // Binds every weight. Throws Error "phase.no_slot", "phase.shape", "phase.unknown_tensor",
    // "device.unsupported" (device, tensor) or "memory.out".
    PrefillWeights(LayerTable& table, const PrefillerFiles& files, const PrefillPlan& plan);
    ~PrefillWeights();
    PrefillWeights(const PrefillWeights&) = delete;
    PrefillWeights& operator=(const PrefillWeights&) = delete;

    [[nodiscard]] const std::vector<BoundWeight>& bound() const { return bound_; }

    // Allocates slots and resident blocks and reads the latter. Throws Error "memory.out", "memory.no_slot"
    // (wanted, device) when a device's carve-out is too small, and the disk's. `uses` comes from
    // scan_prefill_graph and `scheduler` will evaluate such graphs. `progress` takes bytes done and total,
    // and answers false to stop (Error "cancelled").
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
    // Of the last prompt, with blocks by their number in the model.
    [[nodiscard]] std::vector<StreamEvent> events() const;

  private:
    struct PassBlock {
        int block = 0;                         // number in the model
        ggml_backend_device* device = nullptr; // null: the host computes it
        std::vector<std::size_t> weights;      // indices into bound_
        std::vector<FileRange> ranges;         // one for each of them
        std::size_t stream_index = 0;          // place among the streamed blocks
        // Where the weights lie in each slot, and the reads that put them there; empty when resident.
        std::vector<std::vector<Spot>> spots;
        std::vector<std::vector<Segment>> reads; // of blocks that go directly into their slots
        Buffer pinned;                           // all bytes, of tier host
        std::vector<const std::byte*> sources;   // where the weights lie in it
        // Valid once slots are placed.
        [[nodiscard]] bool streamed() const { return !spots.empty(); }
    };
    using Progress = std::function<bool(std::uint64_t, std::uint64_t)>;

    void bind_weight(const PrefillerTensor& tensor, ggml_backend_device* device);
    void require_product(const BoundWeight& weight, ggml_backend_device* device) const;
    void group_blocks(const std::vector<WeightUse>& uses);
    void place_resident(const Progress& progress);
    void place_on_device(PassBlock& block);
    void place_pinned(PassBlock& block);
    void place_slots(const DecoderFiles& decoder, ggml_backend_sched* scheduler);
    void lend_decoder(const DecoderFiles& decoder);
    std::vector<std::vector<Region>> take_slots(ggml_backend_device* device,
                                                std::vector<std::vector<Region>>& lent);
    void place_in_host_slots(const std::vector<std::vector<Region>>& slots);
    void place_in_device_slots(ggml_backend_device* device, const std::vector<std::vector<Region>>& slots,
                               std::vector<DeviceUploader::Block>& uploads);
    [[nodiscard]] std::vector<std::vector<FileRange>> sizes_in_slots(const ggml_backend_device* device) const;
    // Reads a block's weights into memory of at least its placed size; their addresses in it.
    std::vector<std::byte*> read_weights(const PassBlock& block, const Region& memory);
    Region allocate_host(ggml_backend_device* device, std::size_t size, Buffer& buffer);
    void end_block(const PassBlock& block);
    [[nodiscard]] Tier tier(const PassBlock& block) const; // by the plan
    void point(const PassBlock& block, const std::vector<Spot>& spots);

    LayerTable& table_;
    PrefillerFiles files_;
    PrefillPlan plan_;
    PrefillMemory memory_;

    struct FreeContext {
        void operator()(ggml_context* context) const noexcept;
    };
    std::unique_ptr<ggml_context, FreeContext> context_;
    std::vector<BoundWeight> bound_;
    std::map<ggml_backend_device*, Buffer> scales_; // by the device that reads them; null: the host
    Buffer resident_;                               // on the host
    std::vector<Buffer> device_buffers_;            // resident blocks
    std::vector<Buffer> slot_buffers_;              // slots that are not in the carve-out
    std::vector<Buffer> staging_;
    Buffer slot_view_; // a plain CPU buffer over whatever host memory the slots are in
    AddressSpace space_;

    std::vector<PassBlock> pass_; // blocks in the order of their use
    std::vector<PassBlock*> streamed_;
    BlockCounter counter_;
    std::size_t slot_ = 0;              // of the streamed block that is being computed
    std::optional<std::size_t> ending_; // the block that the node being computed ends
    std::optional<ProductScaler> scaler_;
    std::unordered_map<const ggml_tensor*, float> unscaled_; // weights whose scale the graph does not apply

    std::unique_ptr<CarveOut> carve_out_;
    std::unique_ptr<FileReader> reader_;
    std::unique_ptr<DeviceUploader> uploader_; // where a device computes streamed blocks
    std::unique_ptr<BlockStreamer> streamer_;  // last: it stops before what it writes to goes
};

} // namespace twofold
