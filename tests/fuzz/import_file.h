// Imports bytes as a model file without touching the disk: what a format's fuzz target feeds goes through the archive's
// directory, the importer, the normal form and the verifier.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/formats/reader.h"
#include "core/ir/verify.h"
#include "core/text/text.h"
#include "tests/matcher/lang/operators.h"

namespace graft::fuzz {

/// Importers ask for operators alone.
class OperatorsOnly : public Semantics {
 public:
  const OperatorSet& operators() const override { return test::operators(); }
  Result<std::vector<Type>> inferTypes(const Graph&, NodeId) const override { std::abort(); }
  Result<std::vector<Constant>> evaluate(const Graph&, NodeId) const override { std::abort(); }
};

/// A zip of these records, imported by `import`. What imports must be sound and print as canonical text.
template <class Import>
void importRecords(const std::vector<std::pair<std::string, std::string_view>>& records, Import import) {
  static const OperatorsOnly semantics;
  static const int file = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const std::string zip = writeZip(records);
  if (file < 0 || ftruncate(file, 0) != 0 ||
      pwrite(file, zip.data(), zip.size(), 0) != static_cast<ssize_t>(zip.size()))
    std::abort();
  auto mapped = MappedFile::open(path);
  if (!mapped) std::abort();
  auto directory = ZipDirectory::read((*mapped)->bytes(), path);
  if (!directory) std::abort();
  const Source source{*mapped, std::move(*directory), path};
  if (const auto model = import(source, semantics); model && verify(model->graph)) (void)toText(model->graph);
}

}  // namespace graft::fuzz
