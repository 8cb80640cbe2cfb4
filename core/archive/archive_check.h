// What must hold before LibTorch may read an archive. Its readers trust what they read: they overflow the stack on deep
// nests, take a tensor's size from the pickle without asking how long its record is, and run a class's __setstate__
// while loading.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/base/result.h"

namespace graft {

/// Walks a pickle without making anything of it: opcodes that PyTorch writes, at most 1000 deep, every storage that it
/// names within the record that `storageSize` gives for its key (nothing: there is no such record).
Status checkPickle(std::string_view pickle, std::string_view what,
                   const std::function<std::optional<size_t>(std::string_view key)>& storageSize);

/// Looks through TorchScript source: nests and chains of operators at most 1000 deep.
Status checkCode(std::string_view code, std::string_view what);

struct TorchScriptFacts {
  bool runsCodeOnLoad = false;               ///< some class has a __setstate__ (quantised modules do)
  std::vector<std::string> badDebugRecords;  ///< LibTorch must not see these; the model is complete without them
};
/// All of the above for a TorchScript archive, and that what runs on load touches no files and does not loop.
Result<TorchScriptFacts> checkTorchScript(const ZipDirectory&, const std::string& path);

}  // namespace graft
