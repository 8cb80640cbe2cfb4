// The records of a TorchScript archive that tell which line of the user's Python each piece of code came from
// (code/….debug_pkl). LibTorch takes their indices and extents as they come; one that lies makes it read elsewhere.
#pragma once

#include <string_view>

namespace graft {

/// Whether the record is as PyTorch writes it: a table of texts, rising offsets from 0 on if there are any, and ranges
/// within their texts. The record must have passed checkPickle.
bool isSoundDebugRecord(std::string_view pickle);

}  // namespace graft
