// The two tables of block weights, decoder's and prefiller's, and the switch between them.
//
// The library's graph builder reads `model->layers` each time it builds a graph. Exchanging that table
// changes the weights of the next graph and nothing else. This file alone touches the private structure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct llama_model;
struct ggml_tensor;

namespace twofold {

class LayerTable {
  public:
    // Starts with a prefill table equal to the decoder's. The decoder's own 4-bit floating-point weights are
    // kept from 4-bit activations, which some devices would choose. Throws Error "phase.layout" when the
    // library's structures are not as compiled.
    explicit LayerTable(llama_model* model);
    ~LayerTable();
    LayerTable(const LayerTable&) = delete;
    LayerTable& operator=(const LayerTable&) = delete;

    [[nodiscard]] int block_count() const;

    // The decoder's tensor of that name (for example "blk.3.attn_q.weight"), null when it has none.
    [[nodiscard]] ggml_tensor* decoder_tensor(const std::string& name) const;

    // Every tensor of the decoder.
    [[nodiscard]] std::vector<ggml_tensor*> decoder_tensors() const;

    // Puts `weight`, whose products may take 4-bit activations where a device has them, and its per-tensor
    // `scale` in place of the decoder's tensor `name` in the prefill table. Throws Error "phase.no_slot" when
    // that weight has no NVFP4 scale slot in the library. Whether a graph applies the scale is the scan's to
    // tell: some architectures never do.
    void bind(int block, const std::string& name, ggml_tensor* weight, ggml_tensor* scale);

    // Makes the prefill table equal to the decoder's again.
    void reset();

    // Exchanges the tables; see ExchangedTables.
    void exchange() noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// The tables are exchanged while this exists.
class ExchangedTables {
  public:
    explicit ExchangedTables(LayerTable& table) : table_(table) { table_.exchange(); }
    ~ExchangedTables() { table_.exchange(); }
    ExchangedTables(const ExchangedTables&) = delete;
    ExchangedTables& operator=(const ExchangedTables&) = delete;

  private:
    LayerTable& table_;
};

} // namespace twofold
