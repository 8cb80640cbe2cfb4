// Checks an archive before LibTorch may read it. LibTorch's readers trust what they read: deep nesting overflows the
// stack, a tensor's size comes from the pickle whatever its record's length, and a class's __setstate__ runs on load.
//
//   if (auto facts = checkTorchScript(zip, "model.pt"); !facts) return facts.error();
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/base/result.h"

namespace graft {

/// Walks a pickle without building objects. It may hold only opcodes that PyTorch writes, nested at most 1000 deep, and
/// every storage must fit the record whose size in bytes `storageSize` gives for its key (nothing: there is no record).
Status checkPickle(std::string_view pickle, std::string_view what,
                   const std::function<std::optional<size_t>(std::string_view key)>& storageSize);

/// Checks TorchScript source: expressions may nest at most 1000 deep.
Status checkCode(std::string_view code, std::string_view what);

struct TorchScriptFacts {
  bool runsCodeOnLoad = false;               ///< some class has a __setstate__ (quantised modules do)
  std::vector<std::string> badDebugRecords;  ///< records that LibTorch must not see; the model is complete without them
};
/// Checks all of this for a TorchScript archive, and that code which runs on load uses no files and no loops.
Result<TorchScriptFacts> checkTorchScript(const ZipDirectory&, const std::string& path);

}  // namespace graft
