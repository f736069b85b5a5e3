// Puts the engine's kernels into the unmodified library's CPU backend, for matrix products and attention that
// it has no fast kernel for. They run on the library's own threads and in its work memory.
//
// Nothing outside this folder uses the CPU backend's private headers.
#pragma once

#include <cstdint>
#include <optional>

struct ggml_tensor;

namespace twofold {

struct Kernel;

// The fewest columns of activations that a kernel of ours multiplies; fewer go to the library.
inline constexpr std::int64_t min_kernel_columns = 8;

// Chooses a kernel and registers it, once a process; later calls do nothing. Before it the library must not
// be computing. Throws Error "kernel.unknown" (see choice.h), "kernel.no_hook" when the library has no place
// for kernels of others.
void install_kernels();

// What install_kernels() chose; null before it, or when the library multiplies everything.
const Kernel* installed_kernel();

// How many products a kernel of ours has computed in this process.
std::int64_t kernel_products();

// While one exists, weights of any type are multiplied by the installed kernel, re-encoded to BF16 panel by
// panel, from as many columns on as autocast_columns() says for their type ("autocast").
class Autocast {
  public:
    Autocast();
    ~Autocast();
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;
};

// The fewest columns from which autocast multiplies weights of a ggml type; at first: never. Measure them.
void set_autocast_columns(int type, std::int64_t columns);
std::int64_t autocast_columns(int type);
// Whether autocast would take these weights for a prompt of so many tokens.
bool autocast_takes(const ggml_tensor* weights, std::int64_t columns);
inline constexpr std::int64_t never = std::int64_t{1} << 62;

// While one exists, attention is computed in tiles in passes of at least `tokens` tokens; 0: never. Measure
// from how many on tiles are faster. One at a time.
class TiledAttention {
  public:
    explicit TiledAttention(std::int64_t tokens);
    ~TiledAttention();
    TiledAttention(const TiledAttention&) = delete;
    TiledAttention& operator=(const TiledAttention&) = delete;
};

// How many attentions a kernel of ours has computed in this process.
std::int64_t kernel_attentions();

// While one exists, activations that meet NVFP4 weights in a kernel of ours are rounded to four bits.
class FourBitActivations {
  public:
    FourBitActivations();
    ~FourBitActivations();
    FourBitActivations(const FourBitActivations&) = delete;
    FourBitActivations& operator=(const FourBitActivations&) = delete;
};

// Whether weights of a ggml type are multiplied by a row_dot() of ours when activations have fewer than
// min_kernel_columns columns, as in decoding; at first no type but NVFP4. Measure them.
void set_decode_kernel(int type, bool ours);

// For measurements: what activations are that meet NVFP4 weights in decoding; nothing: as otherwise.
// `library`: 8 bits. `four_bits` and `exact` are slow.
enum class DecodeActivations { library, four_bits, exact };
void set_decode_activations(std::optional<DecodeActivations> kind);

// For measurements: who multiplies while one exists, whatever the rules above say.
class ForcedProducts {
  public:
    // `kernel` multiplies all weights in ordinary memory and computes attention; null: the library does all.
    explicit ForcedProducts(const Kernel* kernel);
    ~ForcedProducts();
    ForcedProducts(const ForcedProducts&) = delete;
    ForcedProducts& operator=(const ForcedProducts&) = delete;

  private:
    const Kernel* before_;
};

} // namespace twofold
