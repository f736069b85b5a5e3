// Builds the developer-facing text of an Error from its code and facts.
#include "error.h"

#include <sstream>

namespace twofold {

Error::Error(std::string code, Facts facts) : code_(std::move(code)), facts_(std::move(facts)) {
    std::ostringstream text;
    text << code_;
    for (const auto& [name, fact] : facts_) {
        text << ' ' << name << '=';
        std::visit([&](const auto& value) { text << value; }, fact);
    }
    what_ = text.str();
}

} // namespace twofold
