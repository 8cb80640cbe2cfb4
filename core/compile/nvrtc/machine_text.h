// PTX and SASS for people: without directives for debuggers, but with the line of the source that each line comes from.
//
//   MachineText t = readPtx(ptx, {.first = 40});     // the kernels begin in line 40 of what was compiled
//   t.text, t.sourceLines[3]
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// The lines of a source that are of interest, from 1: of an instruction that an earlier line's function has, inlined,
/// the line where it is called.
struct SourceLines {
  int first = 1;
};

struct MachineText {
  std::string text;
  std::vector<int> sourceLines;  ///< of each line of the text; 0: of none
};

/// What NVRTC writes with --generate-line-info; any PTX can be read.
MachineText readPtx(std::string_view text, const SourceLines&);
/// What nvdisasm writes with --print-line-info-inline, or cuobjdump of SASS, which names no lines.
MachineText readSass(std::string_view text, const SourceLines&);

}  // namespace graft
