// The check accepts every kernel that works and notices one that does not.
#include "kernels/choice.h"
#include "kernels/self_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace twofold;

namespace {

template <int wrong>
void multiply_wrongly(const void* strip, const void* panel, std::int64_t k, std::int64_t used,
                      const float* sums, float* out, std::int64_t out_stride) {
    kernel_scalar.multiply(strip, panel, k, used, sums, out, out_stride);
    if (wrong == 0)
        out[0] *= 1.001F;
    else
        out[0] = std::numeric_limits<float>::quiet_NaN();
}

float exponentiate_wrongly(float* scores, std::int64_t count, float largest) {
    return kernel_scalar.exponentiate(scores, count, largest) * 1.01F;
}

} // namespace

TEST_CASE("every kernel that runs here passes") {
    for (const Kernel* kernel : usable_kernels()) {
        CAPTURE(kernel->name);
        CHECK(kernel_error(*kernel) < kernel_tolerance);
    }
}

TEST_CASE(
    "a kernel that errs by a thousandth, in attention by a hundredth, or gives no number, does not pass") {
    Kernel broken = kernel_scalar;
    broken.multiply = multiply_wrongly<0>;
    CHECK(kernel_error(broken) > kernel_tolerance);
    broken.multiply = multiply_wrongly<1>;
    CHECK(std::isnan(kernel_error(broken)));
    broken = kernel_scalar;
    Kernel attention = floats_scalar;
    attention.exponentiate = exponentiate_wrongly;
    broken.attention = &attention;
    CHECK(kernel_error(broken) > kernel_tolerance);
}

TEST_CASE("a disabled kernel is not usable any more, but scalar always is") {
    const std::vector<const Kernel*> before = usable_kernels();
    for (const Kernel* kernel : before)
        disable_kernel(kernel->name);
    REQUIRE(usable_kernels().size() == 1);
    CHECK(usable_kernels().front() == &kernel_scalar);
}
