#include "core/compile/codegen/placement.h"

#include "core/compile/codegen/prepare.h"

namespace graft::codegen {

using Role = loops::Buffer::Role;

int lanesOf(CpuLevel level) { return level == CpuLevel::Avx512 ? 16 : level == CpuLevel::Avx2 ? 8 : 4; }

Placement placeBuffers(loops::Program& program, const CpuOptions& options) {
  Placement result{std::vector<Strides>(program.buffers.size()), std::vector<int>(program.buffers.size(), -1)};
  int slot = 0;
  size_t layout = 0;
  for (const Role role : {Role::Input, Role::Output, Role::Temporary, Role::Local})
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      if (program.buffers[i].role != role) continue;
      const bool isOfCall = role == Role::Input || role == Role::Output;
      result.strides[i] = isOfCall && !options.layouts.empty() ? options.layouts.at(layout++).strides
                                                               : rowMajor(program, loops::BufferId(i));
      if (role != Role::Local) result.slots[i] = slot++;
    }
  if (!options.sizes.empty()) specialise(program, options.sizes, result.strides);
  return result;
}

}  // namespace graft::codegen
