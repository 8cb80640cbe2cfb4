#include "core/formats/registry.h"

#include "core/formats/format_list.h"

namespace graft {
namespace {

template <class F>
constexpr Format registered() {
  Format out;
  out.file = findFileFormat(F::file.name);
  if constexpr (requires(const ZipDirectory& zip) { F::matches(zip); })
    out.matchesArchive = &F::matches;
  else
    out.matchesBytes = &F::matches;
  out.read = &F::read;
  if constexpr (requires { &F::graphs; }) out.graphs = &F::graphs;
  if constexpr (requires { &F::write; }) out.write = &F::write;
  return out;
}

}  // namespace

std::span<const Format> formats() {
  static constexpr auto all = AllFormats::map([]<class F>() { return registered<F>(); });
  return all;
}

}  // namespace graft
