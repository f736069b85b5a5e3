// Binds model/dequantize.h; the GIL is released, so Python threads can share a tensor's rows.
#include "model/dequantize.h"
#include "bindings.h"
#include "nvfp4/encode.h"

#include <nanobind/ndarray.h>

namespace nb = nanobind;

namespace twofold::bindings {
namespace {

using Input = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

SourceWeights source_of(const Input& data, int type, std::size_t count) {
    return {.type = type, .data = data.data(), .bytes = data.size(), .count = count};
}

} // namespace

void bind_dequantize(nb::module_& m) {
    m.def(
        "source_magnitude",
        [](const Input& data, int type, std::size_t count) {
            const SourceWeights source = source_of(data, type, count);
            nb::gil_scoped_release released;
            return source_magnitude(source);
        },
        nb::arg("data"), nb::arg("type"), nb::arg("count"),
        "Largest magnitude among `count` weights of ggml type `type`.");
    m.def("tensor_scale", &nvfp4_tensor_scale, nb::arg("magnitude"),
          "The NVFP4 scale of a tensor whose largest magnitude is given.");
    m.def(
        "encode_source",
        [](const Input& data, int type, std::size_t count, float scale, const Output& blocks) {
            const SourceWeights source = source_of(data, type, count);
            nb::gil_scoped_release released;
            encode_source(source, scale, blocks.data(), blocks.size());
        },
        nb::arg("data"), nb::arg("type"), nb::arg("count"), nb::arg("scale"), nb::arg("blocks"),
        "Writes the NVFP4 blocks of `count` weights under the tensor's `scale` into `blocks`.");
}

} // namespace twofold::bindings
