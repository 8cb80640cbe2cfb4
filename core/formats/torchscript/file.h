// TorchScriptFile: a checked TorchScript archive, loaded. LibTorch reads the code and the structure. The weights' bytes
// stay in the mapped file: LibTorch gets an archive whose weights are stubs, and `resolve` points each tensor into the
// file. Includes LibTorch: for this folder alone.
//
//   auto file = TorchScriptFile::open(source.file, source.zip, source.path);
//   for (torch::jit::Function* f : (*file)->module().type()->methods()) …
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/archive/zip_directory.h"
#include "core/formats/torchscript/straight_line_program.h"
#include "core/ir/type.h"

namespace graft {

class TorchScriptFile {
 public:
  /// A method of the model with at least `longFrom` statements is kept as straight-line code (straight_line_code.h)
  /// where it is such code.
  static Result<std::unique_ptr<TorchScriptFile>> open(std::shared_ptr<MappedFile>, const ZipDirectory&,
                                                       const std::string& path, size_t longFrom = 2'000);
  ~TorchScriptFile();

  const torch::jit::Module& module() const { return *module_; }
  /// Points the tensor to its data. Must be called before anything reads its elements.
  Status resolve(const at::Tensor&);
  Status resolveSparse(const at::Tensor&);
  /// Where the tensor's data lies. Tensors with equal places and views are one weight.
  const void* place(const at::Tensor& t) const { return t.storage().data(); }
  /// The model's long method, if it has one. In module() its body is empty.
  const StraightLineProgram* straightLine() const { return straightLine_.get(); }
  /// Whether the file calls this operator ("my_ops::fancy") and this machine does not have it.
  bool isUnknown(const c10::Symbol& op) const { return unknown_.contains(op.toQualString()); }
  /// The keywords of a call of an unknown operator, from its last input. The inputs before it are the keywords' values.
  std::optional<std::vector<std::string>> keywords(const c10::IValue& input) const;

 private:
  explicit TorchScriptFile(std::shared_ptr<MappedFile> file) : file_(std::move(file)) {}
  void declareUnknown(const ZipDirectory&);
  void declare(const std::string& qualified, size_t positional, const std::vector<std::string>& keywords,
               size_t results);
  using Records = std::vector<std::pair<std::string, std::string_view>>;  // names and contents of an archive
  void load(const Records&);
  bool loadStraightLine(const ZipDirectory&, Records, const std::string& folder, size_t longFrom);

  std::shared_ptr<MappedFile> file_;
  std::optional<torch::jit::Module> module_;
  std::unique_ptr<StraightLineProgram> straightLine_;
  std::vector<ZipRecord> stubbed_;
  std::unordered_set<const void*> resolved_;
  std::unordered_set<std::string> unknown_, forms_;
  std::vector<c10::FunctionSchema> declared_;
};

/// The dtypes and sizes of the inputs that the method was traced with; empty where the archive does not say.
std::vector<Type> tracedInputs(const ZipDirectory&, const std::string& method);

}  // namespace graft
