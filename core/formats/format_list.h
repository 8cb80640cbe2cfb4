// The one list of model formats. Each format is a folder of core/formats whose format.h describes it; to add one, write
// that folder and add it here. Plain data without LibTorch: the window reads this header too. registry.cpp makes the
// table of the formats' functions from the same list.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/file_format.h"
#include "core/formats/fx/format.h"
#include "core/formats/pt2/format.h"
#include "core/formats/text/format.h"
#include "core/formats/torchscript/format.h"

namespace graft {

template <class... F>
struct FormatList {
  static constexpr size_t size = sizeof...(F);
  /// Calls f.template operator()<Format>() for each, and returns the results as an array.
  template <class Function>
  static constexpr auto map(Function f) {
    return std::array{f.template operator()<F>()...};
  }
};

/// A file is offered to them in this order; messages and dialogs name them in it.
using AllFormats = FormatList<TorchScriptFormat, FxFormat, TorchExportFormat, TextFormat>;

inline constexpr auto fileFormats = AllFormats::map([]<class F>() {
  FileFormat file = F::file;
  file.canWrite = requires { &F::write; };
  return file;
});

/// The format of that name; null where there is none.
constexpr const FileFormat* findFileFormat(std::string_view name) {
  for (const FileFormat& f : fileFormats)
    if (f.name == name) return &f;
  return nullptr;
}

/// The format whose files in a folder have this ending (".pt"); null where files of it need not be models.
constexpr const FileFormat* formatOfEnding(std::string_view ending) {
  for (const FileFormat& f : fileFormats)
    if (!ending.empty() && f.ending == ending) return &f;
  return nullptr;
}

/// {"*.pt", "*.fx", "*.pt2"}: the models in a folder.
inline std::vector<std::string> endingPatterns() {
  std::vector<std::string> out;
  for (const FileFormat& f : fileFormats)
    if (!f.ending.empty()) out.push_back("*" + std::string(f.ending));
  return out;
}

/// "TorchScript (.pt), torch.fx (.fx) or torch.export (.pt2)"
inline std::string modelKinds() {
  std::string out, last;
  for (const FileFormat& f : fileFormats) {
    if (f.ending.empty()) continue;
    if (!last.empty()) out += out.empty() ? last : ", " + last;
    last = std::string(f.title) + " (" + std::string(f.ending) + ")";
  }
  return out + " or " + last;
}

/// "*.pt *.pth *.ts *.fx *.pt2 *.txt": the names that a dialog for opening models shows.
inline std::string modelPatterns() {
  std::string out;
  const auto add = [&](std::string_view ending) {
    if (!ending.empty()) out.append(out.empty() ? "*" : " *").append(ending);
  };
  for (const FileFormat& f : fileFormats) {
    add(f.ending);
    for (std::string_view other : f.otherEndings) add(other);
  }
  return out;
}

}  // namespace graft
