// Nvrtc: NVIDIA's run-time compiler, which comes with PyTorch's wheels for CUDA. It is opened when it is first needed
// and needs no GPU.
//
//   if (const Nvrtc* nvrtc = findNvrtc()) nvrtc->compile(source, 90, Nvrtc::Form::Binary);   else why = nvrtcStatus();
#pragma once

#include <string>

#include "core/base/result.h"

namespace graft {

class Nvrtc {
 public:
  enum class Form : uint8_t { Binary, Ptx };
  /// Machine code for GPUs of this compute capability (90 for 9.0) alone, or PTX for them and later ones. Thread-safe.
  Result<std::string> compile(const std::string& source, int capability, Form) const;
  struct Readable {
    std::string code;
    std::string log;  ///< of a binary: what the assembler says of each kernel, as kernelUsage() reads it
  };
  /// The same code, for people: it says from which line of the source each instruction comes.
  Result<Readable> compileReadable(const std::string& source, int capability, Form) const;
  /// "13.0": a part of the key under which compiled code is kept.
  const std::string& version() const { return version_; }

 private:
  friend struct OpenedNvrtc;
  Result<Readable> compileWith(const std::string& source, int capability, Form, bool isReadable) const;
  struct Functions {
    int (*version)(int*, int*) = nullptr;
    const char* (*errorText)(int) = nullptr;
    int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
    int (*compile)(void*, int, const char* const*) = nullptr;
    int (*destroy)(void**) = nullptr;
    int (*logSize)(void*, size_t*) = nullptr;
    int (*log)(void*, char*) = nullptr;
    int (*binarySize)(void*, size_t*) = nullptr;
    int (*binary)(void*, char*) = nullptr;
    int (*ptxSize)(void*, size_t*) = nullptr;
    int (*ptx)(void*, char*) = nullptr;
  } f_;
  std::string version_;
};

/// Null where it is not installed.
const Nvrtc* findNvrtc();
/// Why it is null; empty where it is not.
const std::string& nvrtcStatus();

}  // namespace graft
