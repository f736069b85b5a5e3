// Raises native errors as `engine.errors.NativeError(code, data)`.
#include "error.h"
#include "bindings.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace twofold::bindings {

void bind_error(nb::module_& m) {
    (void) m;
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const Error& error) {
            nb::dict data;
            for (const auto& [name, fact] : error.facts()) {
                std::visit([&](const auto& value) { data[name.c_str()] = value; }, fact);
            }
            nb::object type = nb::module_::import_("engine.errors").attr("NativeError");
            nb::object instance = type(error.code(), data);
            PyErr_SetObject(type.ptr(), instance.ptr());
        }
    });
}

} // namespace twofold::bindings
