// SASS, the instructions that a GPU runs, of a binary: by NVIDIA's nvdisasm or cuobjdump, where one of them is
// installed. They come with the CUDA toolkit, and with Triton, which PyTorch's wheels for CUDA bring along.
//
//   Result<std::string> text = disassemble(binary, job);      // BadInput says what to install
#pragma once

#include <string>

#include "core/base/progress.h"
#include "core/base/result.h"

namespace graft {

/// The program's path; empty where there is none. nvdisasm comes first: it knows the lines of the source.
/// GRAFT_DISASSEMBLER names another one.
std::string findDisassembler();
/// As readSass() (machine_text.h) takes it.
Result<std::string> disassemble(const std::string& binary, const Job& = {});

}  // namespace graft
