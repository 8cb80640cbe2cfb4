#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include "core/archive/archive_check.h"
#include "core/archive/zip_directory.h"
#include "core/base/atomic_file.h"
#include "core/torch/tensors.h"
#include "core/torch/values/call_arguments.h"
#include "core/torch/values/tensor_sets.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

/// Tensors, numbers, strings, None and pytrees of them; anything else is named.
Status checkContents(const c10::IValue& v) {
  if (v.isTensor() || v.isNone() || v.isScalar() || v.isString()) return done();
  if (v.isTuple()) {
    for (const c10::IValue& m : v.toTupleRef().elements())
      if (Status s = checkContents(m); !s) return s;
    return done();
  }
  if (v.isList()) {
    const auto list = v.toList();
    for (size_t i = 0; i < list.size(); ++i)
      if (Status s = checkContents(list.get(i)); !s) return s;
    return done();
  }
  if (v.isGenericDict()) {
    for (const auto& e : v.toGenericDict()) {
      if (Status s = checkContents(e.key()); !s) return s;
      if (Status s = checkContents(e.value()); !s) return s;
    }
    return done();
  }
  return badInput(
      fmt::format("it holds a {}, only tensors, numbers and lists, tuples or dicts of them are read", v.tagKind()));
}

/// As torch.save of a plain Python object would have it: lists become tuples, because TorchScript's pickler marks lists
/// and dicts with a class that torch.load(weights_only=True) refuses. Slices get memory of their own, or the file would
/// hold all.
c10::IValue forPython(const c10::IValue& v) {
  if (v.isTensor() && v.toTensor().defined()) {
    at::Tensor t = v.toTensor().detach().cpu();
    if (!t.is_contiguous() || (t.has_storage() && t.storage().nbytes() > t.nbytes()))
      t = t.clone(at::MemoryFormat::Contiguous);
    return t;
  }
  std::vector<c10::IValue> out;
  if (v.isTuple())
    for (const c10::IValue& m : v.toTupleRef().elements()) out.push_back(forPython(m));
  else if (v.isList())
    for (const c10::IValue& m : v.toListRef()) out.push_back(forPython(m));
  else if (v.isGenericDict())
    for (const auto& e : v.toGenericDict()) out.push_back(forPython(e.value()));
  else
    return v;
  return c10::ivalue::Tuple::create(std::move(out));
}

Result<c10::IValue> loadValue(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto zip = ZipDirectory::read((*file)->bytes(), path);
  if (!zip) {
    const std::string_view bytes = (*file)->bytes();
    if (bytes.size() > 1 && bytes[0] == '\x80')
      return badInput(
          fmt::format("{} is in PyTorch's format from before 1.6, which cannot be read without running it; load it in "
                      "Python and torch.save it again",
                      path));
    return zip.error();
  }
  const ZipRecord* pickle = zip->find("data.pkl");
  if (!pickle) return badInput(fmt::format("{} holds no tensors saved with torch.save (it has no data.pkl)", path));
  if (zip->find("constants.pkl"))
    return badInput(fmt::format("{} is a model; a file of inputs, written with torch.save, is wanted", path));
  auto sizeOf = [&](std::string_view key) -> std::optional<size_t> {
    const ZipRecord* r = zip->find("data/" + std::string(key));
    return r ? std::optional(r->size) : std::nullopt;
  };
  if (Status s = checkPickle(zip->bytes(*pickle), "data.pkl", sizeOf); !s)
    return badInput(fmt::format("{}: {}", path, s.error().message));
  try {
    const std::string_view bytes = (*file)->bytes();
    const c10::IValue v = torch::jit::pickle_load({bytes.begin(), bytes.end()});
    if (Status s = checkContents(v); !s) return badInput(fmt::format("{}: {}", path, s.error().message));
    return v;
  } catch (const std::exception& e) {
    // How Python's torch.save spells sparse tensors, which no reader of LibTorch's knows.
    if (std::string_view(e.what()).find("torch.serialization._get_layout") != std::string_view::npos)
      return badInput(
          fmt::format("{} holds a sparse tensor, which Graft takes as no input. Save its to_dense()", path));
    return badInput(fmt::format("{} cannot be read as tensors: {}. Save a tensor, or a list, tuple or dict of them",
                                path, shortMessage(e)));
  }
}

/// The entries of the outermost container; their names where it is a dict.
TensorSet entriesOf(const c10::IValue& v) {
  if (v.isTuple()) return tensorSet(v.toTupleRef().elements().vec());
  if (v.isList()) {
    const auto list = v.toList();
    return tensorSet(std::vector<c10::IValue>(list.begin(), list.end()));
  }
  if (!v.isGenericDict()) return tensorSet({v});
  std::vector<c10::IValue> values;
  std::vector<std::string> names;
  for (const auto& e : v.toGenericDict()) {
    names.push_back(e.key().isString() ? e.key().toStringRef() : describe(e.key()));
    values.push_back(e.value());
  }
  TensorSet set = tensorSet(std::move(values));
  set.impl->names = std::move(names);
  return set;
}

}  // namespace

Result<TensorSet> loadTensors(const std::string& path) {
  auto v = loadValue(path);
  if (!v) return v.error();
  return entriesOf(*v);
}

Result<TensorSet> loadInputs(const std::string& path, const Graph& g) {
  auto v = loadValue(path);
  if (!v) return v.error();
  auto bound = boundInputs(g, *v);
  if (!bound) return badInput(fmt::format("{}: {}", path, bound.error().message));
  return *bound ? std::move(**bound) : entriesOf(*v);
}

Status saveTensors(const TensorSet& set, const std::string& path) {
  try {
    // Python's torch.load takes no tensors that are marked as conjugated or negated.
    const TensorSet resolved = mapTensors(set, [](const at::Tensor& t) { return t.resolve_conj().resolve_neg(); });
    std::vector<c10::IValue> plain;
    for (const c10::IValue& v : valuesOf(resolved)) plain.push_back(forPython(v));
    const c10::IValue all = plain.size() == 1 ? plain[0] : c10::IValue(c10::ivalue::Tuple::create(std::move(plain)));
    const std::vector<char> bytes = torch::jit::pickle_save(all);
    return writeFileAtomically(path, {bytes.data(), bytes.size()});
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} cannot be written: {}", path, shortMessage(e)));
  }
}

}  // namespace graft
