// Group::runParts on a GPU: an elementwise group for many sets of tensors, in place, in one launch for all of them.
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "kernels/generated/call_kind.h"
#include "kernels/generated/cuda/cuda_compiled.h"
#include "kernels/generated/group.h"

namespace graft::ops {
namespace {

using Part = codegen::CudaPart;

/// Elements of the tensors that the kernels are planned for: all multiprocessors have work.
constexpr int64_t kPlannedLength = int64_t{1} << 20;
/// A longer part is several: a kernel counts with 32 bits. Divisible by all vectors.
constexpr int64_t kLongest = int64_t{1} << 30;
constexpr uintptr_t kAligned = 16;

/// Memory of one part. A number's address stays the same wherever a piece of the part begins.
struct Memory {
  char* data = nullptr;
  int64_t elementBytes = 0;  ///< 0: of a number
};

Part pieceOf(const std::vector<Memory>& all, int64_t begin, int64_t length) {
  Part piece;
  piece.length = length;
  for (const Memory& m : all) piece.buffers.push_back(m.data + begin * m.elementBytes);
  return piece;
}

/// The parts of a call as pieces for two kernels; nothing where a part is not elementwise memory.
struct Pieces {
  std::vector<std::vector<Memory>> parts;
  std::vector<int64_t> lengths;

  /// Adds a part: `numbers` says which inputs have one element for all of the others. Whether it can be run in place.
  bool add(at::TensorList inputs, at::TensorList results, const std::vector<bool>& numbers) {
    const at::Tensor& first = results[0];
    if (!first.is_non_overlapping_and_dense()) return false;
    std::vector<Memory> all;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor& t = inputs[i];
      if (numbers[i] ? t.numel() != 1 : !lieAlike(t, first)) return false;
      const auto bytes = static_cast<int64_t>(t.element_size());
      all.push_back({static_cast<char*>(const_cast<void*>(t.const_data_ptr())), numbers[i] ? 0 : bytes});
    }
    for (const at::Tensor& t : results) {
      if (!lieAlike(t, first)) return false;
      all.push_back({static_cast<char*>(t.mutable_data_ptr()), static_cast<int64_t>(t.element_size())});
    }
    parts.push_back(std::move(all));
    lengths.push_back(first.numel());
    return true;
  }

  void split(int64_t vector, std::vector<Part>& aligned, std::vector<Part>& others) const {
    for (size_t p = 0; p < parts.size(); ++p) {
      const bool isAligned = std::all_of(parts[p].begin(), parts[p].end(), [](const Memory& m) {
        return m.elementBytes == 0 || reinterpret_cast<uintptr_t>(m.data) % kAligned == 0;
      });
      const int64_t wide = isAligned ? lengths[p] / vector * vector : 0;
      for (int64_t at = 0; at < wide; at += kLongest)
        aligned.push_back(pieceOf(parts[p], at, std::min(kLongest, wide - at)));
      for (int64_t at = wide; at < lengths[p]; at += kLongest)
        others.push_back(pieceOf(parts[p], at, std::min(kLongest, lengths[p] - at)));
    }
  }
};

/// Whether memory that one part writes is another one's: then their order counts. An input may be a result of its own
/// part, as a whole.
bool overlap(const Pieces& pieces, size_t inputs) {
  struct Stretch {
    const char *begin, *end;
    size_t part;
    bool operator<(const Stretch& other) const { return begin < other.begin; }
  };
  std::vector<Stretch> written, read;
  for (size_t p = 0; p < pieces.parts.size(); ++p)
    for (size_t i = 0; i < pieces.parts[p].size(); ++i) {
      const Memory& m = pieces.parts[p][i];
      const Stretch all{m.data, m.data + (m.elementBytes > 0 ? m.elementBytes * pieces.lengths[p] : 1), p};
      if (all.begin < all.end) (i < inputs ? read : written).push_back(all);
    }
  std::sort(written.begin(), written.end());
  for (size_t i = 1; i < written.size(); ++i)
    if (written[i].begin < written[i - 1].end) return true;
  return std::any_of(read.begin(), read.end(), [&](const Stretch& r) {
    // Those that are written do not overlap: the last one that begins before the end of what is read, and back.
    for (auto w = std::lower_bound(written.begin(), written.end(), Stretch{r.end, r.end, 0}); w != written.begin();) {
      --w;
      if (w->end <= r.begin) return false;
      if (w->part != r.part || w->begin != r.begin || w->end != r.end) return true;
    }
    return false;
  });
}

}  // namespace

bool Group::runPartsOnCuda(at::TensorList inputs, at::TensorList results, size_t parts) {
  if (parts == 0 || results.empty()) return false;
  const c10::Device device = results[0].device();
  if (!device.is_cuda() || !arePlain(inputs, device) || !arePlain(results, device)) return false;
  const size_t taken = inputs.size() / parts, given = results.size() / parts;
  std::vector<bool> numbers;
  for (const ValueId v : graph_->inputs()) {
    const auto& shape = graph_->value(v).type.tensorInfo.shape;
    numbers.push_back(shape && shape->empty());
  }
  Pieces pieces;
  for (size_t p = 0; p < parts; ++p) {
    const at::TensorList in = inputs.slice(p * taken, taken), out = results.slice(p * given, given);
    const auto isSameType = [](const at::Tensor& a, const at::Tensor& b) { return a.scalar_type() == b.scalar_type(); };
    if (!std::equal(in.begin(), in.end(), inputs.begin(), isSameType) ||
        !std::equal(out.begin(), out.end(), results.begin(), isSameType) || !pieces.add(in, out, numbers))
      return false;
  }
  if (overlap(pieces, taken)) return false;

  std::string key(1, static_cast<char>(device.index()));
  for (const at::Tensor& t : inputs.slice(0, taken)) key += static_cast<char>(t.scalar_type());
  for (const at::Tensor& t : results.slice(0, given)) key += static_cast<char>(t.scalar_type());
  PartKernels kernels;
  bool isKnown = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = inParts_.find(key);
    isKnown = found != inParts_.end();
    if (isKnown) kernels = found->second;
  }
  if (!isKnown) {
    if (CudaCompiled::isCapturing(results[0])) return false;  // a later call, outside of a capture, makes the kernels
    const auto make = [&]() -> Result<PartKernels> {
      std::vector<at::Tensor> planned;
      for (size_t i = 0; i < taken; ++i)
        planned.push_back(numbers[i] ? at::zeros({}, inputs[i].options())
                                     : at::zeros({kPlannedLength}, inputs[i].options()));
      const Seen seen = Seen::run(aten_, planned, {});
      for (size_t i = 0; i < given; ++i)
        if (seen.results[i].scalar_type() != results[i].scalar_type()) return badInput("a result has another dtype");
      const Result<CudaLoops> loops = CudaLoops::make(typed(planned, {}, seen), planned, {}, seen.results);
      if (!loops) return loops.error();
      PartKernels made;
      for (const bool isAligned : {true, false}) {
        const Result<codegen::CudaCode> code = loops->codeInParts(isAligned);
        if (!code) return code.error();
        auto one = loops->compile(*code);
        if (!one) return one.error();
        (isAligned ? made.aligned : made.unaligned) = std::move(*one);
      }
      return made;
    };
    Result<PartKernels> made = make();
    if (made)
      kernels = std::move(*made);
    else
      TORCH_WARN_ONCE("graft::generated_parts: ", made.error().message, "; its parts run one after another");
    const std::lock_guard lock(mutex_);
    inParts_.emplace(key, kernels);
  }
  if (!kernels.aligned) return false;
  std::vector<Part> aligned, others;
  pieces.split(kernels.aligned->vector(), aligned, others);
  if (!aligned.empty()) kernels.aligned->run(aligned);
  if (!others.empty()) kernels.unaligned->run(others);
  return true;
}

}  // namespace graft::ops
