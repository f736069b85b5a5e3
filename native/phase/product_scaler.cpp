// A graph of one node, built anew for each product.
#include "phase/product_scaler.h"

#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

#include <memory>

namespace twofold {
namespace {

constexpr std::size_t nodes = 4; // a view of the product and the scaled view, with room to spare

struct FreeContext {
    void operator()(ggml_context* context) const noexcept { ggml_free(context); }
};

} // namespace

ProductScaler::ProductScaler(ggml_backend_sched* scheduler)
    : scheduler_(scheduler),
      memory_(ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false)) {}

void ProductScaler::scale(ggml_tensor* product, float factor) {
    const std::unique_ptr<ggml_context, FreeContext> context(
        ggml_init({memory_.size(), memory_.data(), true}));
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), nodes, false);
    ggml_tensor* scaled = ggml_scale_inplace(context.get(), ggml_view_tensor(context.get(), product), factor);
    scaled->buffer = scaled->src[0]->buffer = product->buffer;
    ggml_build_forward_expand(graph, scaled); // stops at the view: the product itself is done
    ggml_backend_t backend = ggml_backend_sched_get_tensor_backend(scheduler_, product);
    const ggml_status status = ggml_backend_graph_compute(backend, graph);
    if (status != GGML_STATUS_SUCCESS)
        throw Error(
            status == GGML_STATUS_ABORTED ? "cancelled" : "session.evaluation_failed",
            {{"result", static_cast<std::int64_t>(status)}, {"why", std::string("scaling a product")}});
}

} // namespace twofold
