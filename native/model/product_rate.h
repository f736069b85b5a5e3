// Measures how fast a device multiplies weights of one type with a batch of tokens.
#pragma once

#include <cstddef>
#include <cstdint>

namespace twofold {

struct ProductQuestion {
    std::size_t device = 0; // index in list_devices()
    int type = 0;           // ggml type of the weights
    std::int64_t columns = 0;
    std::int64_t rows = 0;
    std::int64_t tokens = 1;
    std::int64_t matrices =
        1;                // distinct weights of that size; more than a cache holds shows the memory's rate
    int threads = 1;      // on the CPU
    double seconds = 0.2; // to spend, at least one round of all matrices
};

struct ProductRate {
    bool supported = false;
    double seconds = 0;             // of one product, in the fastest round over all matrices
    std::uint64_t weight_bytes = 0; // of one matrix
};

// Weights are zeros: kernels take the same time for any values. Throws std::invalid_argument for a type or
// size that the library does not have, Error "memory.out" when the matrices do not fit.
ProductRate measure_product(const ProductQuestion& question);

} // namespace twofold
