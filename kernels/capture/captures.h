// Captures: a model's runs on one GPU kept as CUDA graphs, one for each shape of its inputs. The first run of a shape
// is captured, later ones copy the inputs in, replay and copy the outputs out. All share one pool of memory; the least
// recently used goes when there are too many. Where the GPU's memory does not suffice, all are given back before the
// error is thrown on. Thread-safe: threads take turns, and streams wait for each other.
//
//   Captures captures(*table, /*device=*/0, /*limit=*/16);
//   auto outputs = captures.run(inputs, [&](const std::vector<c10::IValue>& in) { return model(in); });
//
// Used by the operator library (runner.cpp) and by the program (core/torch/run/cuda_runner.cpp), each with a copy of
// its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/capture/graphs.h"

namespace graft {

/// The model cannot be captured (it waits for the GPU, has its inputs elsewhere, …), or the GPU fails: in words.
/// Running it as it is may still do.
struct CaptureError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether the GPU's memory did not suffice. What an exception says counts beside its type: TorchScript's interpreter
/// makes a std::runtime_error of whatever an operator throws, and CUDA's libraries have errors of their own.
bool outOfMemory(const std::exception&);

/// What a captured run depends on besides the numbers in its tensors: their dtypes, sizes and strides, and all other
/// values. Throws CaptureError where a tensor is not on CUDA device `device` or a value cannot be told from others.
using CaptureKey = std::vector<int64_t>;
CaptureKey captureKey(const std::vector<c10::IValue>& inputs, int device);

class Captures {
 public:
  using Values = std::vector<c10::IValue>;
  using Body = std::function<Values(const Values& inputs)>;

  /// `constantWeights`: promises that no kernel of the body writes what graft:: operators get as weights and biases, so
  /// that a kernel may fetch them while the one before it still runs.
  Captures(const GraftCudaGraphs& cuda, int device, size_t limit, bool constantWeights);
  ~Captures();
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  /// The outputs are the caller's own. What the body throws outside of the capture is thrown on. `key` is captureKey of
  /// the inputs. Where outOfMemory is true of what is thrown, nothing is captured any more, and the allocator's cache
  /// is empty: the model itself may have room now.
  Values run(const Values& inputs, const CaptureKey& key, const Body&);
  Values run(const Values& inputs, const Body& body) { return run(inputs, captureKey(inputs, device_), body); }
  struct Replay {
    double milliseconds = 0;  ///< on the GPU, by events around the whole graph
    size_t kernels = 0, streams = 1;
  };
  /// Replays once and waits, on the numbers that were captured or copied in last.
  Replay time(const Values& inputs, const Body&, bool flushed);

  bool has(const CaptureKey&);
  size_t size();
  size_t mostStreams();  ///< of any capture; 1 where there is none
  void setLimit(size_t);
  void clear();
  /// As clear(), and empties the allocator's cache. What was captured.
  std::vector<CaptureKey> giveBack();

 private:
  struct Capture {
    CaptureKey key;
    Values inputs, outputs;           ///< the graph's own memory
    std::vector<at::Tensor> tensors;  ///< of the inputs
    std::vector<bool> comes, goes;    ///< the inputs and outputs that are copied within the graph
    std::vector<const void*> from;    ///< of one call: where they come from
    std::vector<void*> to;            ///< and go
    void* graph = nullptr;
  };
  template <class F>
  auto attempt(const F& f) -> decltype(f());
  class Use;
  Capture& find(const Values& inputs, const CaptureKey& key, const Body&);
  void addCopies(Capture&);
  void bring(Capture&, const Values& inputs);
  Values takeOut(const Capture&, std::vector<at::Tensor> own);
  void free(Capture&);
  void shrink(size_t);
  void dropAll();
  template <class F>
  static void check(const char* what, const F& call);

  const GraftCudaGraphs& cuda_;
  int device_;
  size_t limit_;
  bool constantWeights_;
  void* pool_ = nullptr;  ///< while there are captures, and while one is made
  std::mutex mutex_;
  std::list<Capture> captures_;  ///< most recently used first
  std::map<CaptureKey, std::list<Capture>::iterator> places_;
};

}  // namespace graft
