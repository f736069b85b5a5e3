// Looks among our own conversions first.
#include "model/fast_converter.h"

#include "model/code_decode.h"
#include "model/grid_decode.h"

#include <initializer_list>

namespace twofold {

FloatConverter fast_converter(int type) {
    for (const auto converter : {code_converter(type), grid_converter(type)}) {
        if (converter)
            return converter;
    }
    return float_converter(type);
}

} // namespace twofold
