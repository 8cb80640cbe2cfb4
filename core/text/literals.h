// How strings and numbers look in the canonical text: shared by printing and parsing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft {

/// In double quotes with \" \\ \n \t \r and \xHH for other control characters and bytes that are not UTF-8 text.
std::string quoted(std::string_view s);
/// The shortest text that reads back as the same double, always with '.', 'e', "inf" or "nan" in it.
std::string floatText(double d);

}  // namespace graft
