// Tensors over the bytes of a mapped model file: nothing is copied that is not packed, records that several tensors
// name are shared. Includes LibTorch: for core/torch alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/archive/zip_directory.h"

namespace graft {

struct TensorLayout {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::vector<int64_t> sizes, strides;  ///< no strides: contiguous
  int64_t offset = 0;                   ///< in elements
};

class MappedTensors {
 public:
  explicit MappedTensors(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}
  /// The record is one of the file's directory. A packed one lies in memory, unpacked. The error says what does not
  /// fit.
  Result<at::Tensor> tensor(const ZipRecord&, const TensorLayout&, const std::string& name);

 private:
  std::shared_ptr<MappedFile> file_;
  std::unordered_map<size_t, c10::Storage> storages_;  // by where they begin
};

}  // namespace graft
