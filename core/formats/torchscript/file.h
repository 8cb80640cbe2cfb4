// TorchScriptFile: a checked TorchScript archive, loaded. LibTorch reads the code and the structure; the weights' bytes
// stay where they are: LibTorch is given an archive whose weights are stubs, and `resolve` points each tensor into the
// mapped file. Includes LibTorch: for core/torch alone.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/formats/torchscript/straight_line_kinds.h"
#include "core/ir/type.h"

namespace graft {

class TorchScriptFile {
 public:
  /// A method of the model with at least `longFrom` statements is followed statement by statement (straight_code.h)
  /// where that can be done.
  static Result<std::unique_ptr<TorchScriptFile>> open(std::shared_ptr<MappedFile>, const ZipDirectory&,
                                                       const std::string& path, size_t longFrom = 2'000);
  ~TorchScriptFile();

  const torch::jit::Module& module() const { return *module_; }
  /// Gives the tensor its data in place. Must be called before its elements are read.
  Status resolve(const at::Tensor&);
  /// Where the tensor's data lies; tensors with equal places and views are one weight.
  const void* place(const at::Tensor& t) const { return t.storage().data(); }
  /// The model's long method, if it has one; LibTorch knows it with an empty body.
  const StraightLineKinds* straight() const { return straight_.get(); }
  /// Operators of the file that this machine does not have ("my_ops::fancy").
  bool isUnknown(const c10::Symbol& op) const { return unknown_.contains(op.toQualString()); }
  /// Calls of these with keywords have one more input, the last, that says which: the values before it are theirs.
  std::optional<std::vector<std::string>> keywords(const c10::IValue& input) const;

 private:
  explicit TorchScriptFile(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}
  void declareUnknown(const ZipDirectory&);
  void declare(const std::string& qualified, size_t positional, const std::vector<std::string>& keywords,
               size_t results);
  using Records = std::vector<std::pair<std::string, std::string_view>>;  // names and contents of an archive
  void load(const Records&);
  bool loadStraight(const ZipDirectory&, Records, const std::string& folder, size_t longFrom);

  std::shared_ptr<MappedFile> file_;
  std::optional<torch::jit::Module> module_;
  std::unique_ptr<StraightLineKinds> straight_;
  std::vector<ZipRecord> stubbed_;
  std::unordered_set<const void*> resolved_;
  std::unordered_set<std::string> unknown_, forms_;
  std::vector<c10::FunctionSchema> declared_;
};

/// dtype and sizes of what the method was traced with, as the archive tells; empty where it does not.
std::vector<Type> tracedInputs(const ZipDirectory&, const std::string& method);

}  // namespace graft
