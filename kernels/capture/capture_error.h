// Errors of capturing and replaying CUDA graphs.
//
//   checkCuda("replay failed: ", [&](char* error, size_t size) { return cuda.replay(graph, from, to, error, size); });
#pragma once

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

namespace graft {

/// The model cannot be captured (it waits for the GPU, has inputs elsewhere, …), or the GPU fails; the message says
/// which. The model may still run without a capture.
struct CaptureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether the GPU ran out of memory. The message counts as well as the type: TorchScript's interpreter turns whatever
/// an operator throws into a std::runtime_error, and CUDA's libraries have errors of their own.
bool isOutOfMemory(const std::exception&);

/// What an exception says in one line: without a backtrace of C++, and of an error in TorchScript's interpreter what
/// failed rather than where.
std::string briefMessage(const std::exception&);

/// Calls a function of GraftCudaGraphs (cuda_graphs.h) with room for a message. Throws CaptureError, `what` and the
/// message, where it returns false.
template <class F>
void checkCuda(const char* what, const F& call) {
  std::array<char, 1024> error{};
  if (!call(error.data(), error.size())) throw CaptureError(std::string(what) + error.data());
}

}  // namespace graft
