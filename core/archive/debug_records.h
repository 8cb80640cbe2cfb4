// The records of a TorchScript archive that tell which line of the user's Python each piece of code came from
// (code/….debug_pkl). LibTorch takes their indices and extents as they come; one that lies makes it read elsewhere.
#pragma once

#include <string_view>

namespace graft {

/// Whether the record is what PyTorch writes: a table of texts, offsets in rising order from 0 on, ranges within the
/// texts that they name. The record has passed checkPickle.
bool isSoundDebugRecord(std::string_view pickle);

}  // namespace graft
