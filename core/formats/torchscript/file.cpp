#include "core/formats/torchscript/file.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/ops/_validate_sparse_compressed_tensor_args.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <random>

#include "core/archive/archive_check.h"
#include "core/archive/python_names.h"
#include "core/torch/values/values.h"

namespace graft {
namespace {

// What LibTorch reads in place of a weight: a random mark, which no file can contain, and the record it stands for.
struct Stub {
  std::array<uint64_t, 3> mark;
  uint64_t record;
};

const std::array<uint64_t, 3>& stubMark() {
  static const std::array<uint64_t, 3> mark = [] {
    std::random_device d;
    const auto word = [&] { return (uint64_t{d()} << 32) | d(); };
    return std::array<uint64_t, 3>{word(), word(), word()};
  }();
  return mark;
}

class MemoryReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MemoryReader(std::string_view bytes, std::string owned = {}) : owned_(std::move(owned)), bytes_(bytes) {
    if (!owned_.empty()) bytes_ = owned_;
  }
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t pos, void* buffer, size_t n, const char*) const override {
    if (pos >= bytes_.size()) return 0;
    n = std::min<size_t>(n, bytes_.size() - pos);
    std::memcpy(buffer, bytes_.data() + pos, n);
    return n;
  }

 private:
  std::string owned_;
  std::string_view bytes_;
};

const std::string keywordMark = "graft keywords: ";

std::string_view wordAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && isWordChar(text[end])) ++end;
  return text.substr(at, end - at);
}

struct CallForm {
  size_t positional = 0;
  std::vector<std::string> keywords;
};

// The form of the call whose arguments begin at `at`: (x, alpha=1, beta=f(y=2)) has one positional argument, then
// "alpha" and "beta". Subtracts the characters that it reads from `budget`: a hostile file may nest calls without end.
CallForm callForm(std::string_view code, size_t at, size_t& budget) {
  CallForm out;
  size_t depth = 1;
  bool begins = true;  // of an argument of this call
  for (; at < code.size() && depth > 0 && budget > 0; ++at, --budget) {
    const char c = code[at];
    const bool space = c == ' ' || c == '\n';
    if (begins && !space && c != ')') ++out.positional;
    if (c == '"' || c == '\'') {
      for (++at; at < code.size() && code[at] != c; ++at) at += code[at] == '\\';
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    } else if (begins && isWordChar(c)) {
      const std::string_view word = wordAt(code, at);
      at += word.size() - 1;
      const std::string_view rest = code.substr(at + 1);
      if (rest.starts_with('=') && !rest.starts_with("==")) {
        out.keywords.emplace_back(word);
        --out.positional;
      }
    }
    if (!space) begins = c == ',' && depth == 1;
  }
  return out;
}

// How many names the statement around `at` assigns: "a, b, = ops.x.y(…)" assigns two.
size_t assignedNames(std::string_view code, size_t at) {
  const size_t start = code.rfind('\n', at) == code.npos ? 0 : code.rfind('\n', at) + 1;
  const std::string_view left = code.substr(start, at - start);
  const size_t equals = left.rfind('=');
  if (equals == left.npos || left.substr(equals + 1).find_first_not_of(' ') != std::string_view::npos) return 1;
  // Both "a, b" and "a, b," are two names.
  const std::string_view names = left.substr(0, equals);
  const size_t last = names.find_last_not_of(' ');
  const auto commas = static_cast<size_t>(std::count(names.begin(), names.end(), ','));
  return last != names.npos && names[last] == ',' ? std::max<size_t>(commas, 1) : commas + 1;
}

}  // namespace

TorchScriptFile::~TorchScriptFile() {
  module_.reset();
  for (const c10::FunctionSchema& s : declared_) torch::jit::deregisterOperator(s);
}

// LibTorch refuses code that calls operators it does not know. This declares them for the time of the import: they take
// anything and return as many tensors as the code unpacks. A call with keywords gets an overload of its own, with the
// keywords as parameters and one parameter more, whose default value names them in the node.
void TorchScriptFile::declareUnknown(const ZipDirectory& zip) {
  size_t budget = size_t{64} << 20;
  for (const ZipRecord& r : zip.records()) {
    if (!r.name.starts_with("code/") || !r.name.ends_with(".py")) continue;
    const std::string_view code = zip.bytes(r);
    for (size_t at = code.find("ops."); at != code.npos; at = code.find("ops.", at + 4)) {
      if (at > 0 && (isWordChar(code[at - 1]) || code[at - 1] == '.')) continue;
      const std::string_view space = wordAt(code, at + 4);
      const size_t dot = at + 4 + space.size();
      if (space.empty() || dot >= code.size() || code[dot] != '.') continue;
      const std::string_view name = wordAt(code, dot + 1);
      if (name.empty() || dot + 1 + name.size() >= code.size() || code[dot + 1 + name.size()] != '(') continue;
      const std::string qualified = fmt::format("{}::{}", space, name);
      if (!unknown_.contains(qualified) &&
          !torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(qualified)).empty())
        continue;
      unknown_.insert(qualified);
      CallForm form = callForm(code, dot + 2 + name.size(), budget);
      if (form.keywords.empty()) form.positional = 0;  // any number of them
      if (forms_.insert(fmt::format("{} {} {}", qualified, form.positional, fmt::join(form.keywords, ","))).second)
        declare(qualified, form.positional, form.keywords, assignedNames(code, at));
    }
  }
}

void TorchScriptFile::declare(const std::string& qualified, size_t positional, const std::vector<std::string>& keywords,
                              size_t results) {
  std::string parameters = keywords.empty() ? "..." : "";
  for (size_t i = 0; i < positional; ++i) parameters += fmt::format("Any graft_{}, ", i);
  for (size_t i = 0; i < keywords.size(); ++i) parameters += fmt::format("{}Any {}, ", i ? "" : "*, ", keywords[i]);
  if (!keywords.empty())
    parameters += fmt::format("str graft_keywords=\"{}{}\"", keywordMark, fmt::join(keywords, ","));
  std::string returns = "Tensor";
  for (size_t i = 1; i < results; ++i) returns += ", Tensor";
  torch::jit::Operator stand(
      fmt::format("{}.graft{}({}) -> ({})", qualified, declared_.size(), parameters, returns),
      [qualified](torch::jit::Stack&) { throw std::runtime_error(qualified + " is not there"); },
      c10::AliasAnalysisKind::CONSERVATIVE);
  declared_.push_back(stand.schema());
  torch::jit::registerOperator(std::move(stand));
}

std::optional<std::vector<std::string>> TorchScriptFile::keywords(const c10::IValue& mark) const {
  if (!mark.isString() || !mark.toStringRef().starts_with(keywordMark)) return std::nullopt;
  std::vector<std::string> out;
  std::string_view rest = std::string_view(mark.toStringRef()).substr(keywordMark.size());
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    out.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

void TorchScriptFile::load(const Records& records) {
  module_ = torch::jit::load(std::make_shared<MemoryReader>(std::string_view(), writeZip(records)), c10::kCPU);
}

// The model's class: "c__torch__.a\nNet\n" begins its pickle.
static std::optional<std::pair<std::string, std::string>> modelClass(const ZipDirectory& zip) {
  const ZipRecord* record = zip.find("data.pkl");
  constexpr std::string_view head =
      "\x80\x02"
      "c";
  if (!record || !zip.bytes(*record).starts_with(head)) return std::nullopt;
  const std::string_view bytes = zip.bytes(*record).substr(head.size());
  const size_t first = bytes.find('\n'), second = first == bytes.npos ? first : bytes.find('\n', first + 1);
  if (second == bytes.npos) return std::nullopt;
  return std::pair(std::string(bytes.substr(0, first)), std::string(bytes.substr(first + 1, second - first - 1)));
}

// Loads the records with the body of the model's long method emptied. False, with nothing loaded that counts, where the
// model has no method that the converter can follow without LibTorch's compiler.
bool TorchScriptFile::loadStraightLine(const ZipDirectory& zip, Records records, const std::string& folder,
                                       size_t longFrom) {
  const auto of = modelClass(zip);
  if (!of || zip.find("extra/graft.json")) return false;  // metadata refers to the names in the code
  std::string name = "code/" + of->first + ".py";
  std::replace(name.begin() + 5, name.end() - 3, '.', '/');
  const ZipRecord *record = zip.find(name), *written = zip.find("version");
  if (!record || !written) return false;
  size_t version = 0;
  const std::string_view digits = zip.bytes(*written);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), version).ec != std::errc()) return false;
  auto code = StraightLineCode::find(zip.bytes(*record), of->second, longFrom);
  const std::string stub = code ? code->stub() : "";
  if (stub.empty()) return false;
  for (auto& [at, content] : records)
    if (at == folder + "/" + name) content = stub;
  try {
    load(records);
  } catch (const std::exception&) {
    return false;  // the file is loaded as it is instead, and that reports what is wrong with it
  }
  torch::jit::Function* method = module_->type()->findMethod(code->method());
  auto* script = method ? torch::jit::tryToGraphFunction(*method) : nullptr;
  if (script) straightLine_ = StraightLineProgram::compile(std::move(*code), *script, version);
  return straightLine_ != nullptr;
}

Result<std::unique_ptr<TorchScriptFile>> TorchScriptFile::open(std::shared_ptr<MappedFile> file,
                                                               const ZipDirectory& zip, const std::string& path,
                                                               size_t longFrom) {
  auto facts = checkTorchScript(zip, path);
  if (!facts) return facts.error();
  std::unique_ptr<TorchScriptFile> out(new TorchScriptFile(file));

  // writeZip writes no 64-bit fields; larger archives are loaded as they are.
  Records records;
  size_t bytes = 0;
  std::vector<Stub> stubs;
  stubs.reserve(zip.records().size());  // the records below point into it
  const std::string folder = zip.topFolder().empty() ? "model" : zip.topFolder();
  const std::vector<std::string>& bad = facts->badDebugRecords;
  for (const ZipRecord& r : zip.records()) {
    if (r.name.starts_with("traced_inputs")) continue;  // shapes without data, which nothing may read
    if (std::find(bad.begin(), bad.end(), r.name) != bad.end())
      continue;  // wrong source lines, which the model does not need
    std::string_view content = zip.bytes(r);
    if (r.name.starts_with("data/") && !r.unpacked) {
      stubs.push_back({stubMark(), out->stubbed_.size()});
      out->stubbed_.push_back(r);
      content = {reinterpret_cast<const char*>(&stubs.back()), sizeof(Stub)};
    }
    bytes += content.size() + 256;
    records.emplace_back(folder + "/" + r.name, content);
  }
  const bool asItIs = facts->runsCodeOnLoad || records.size() > 65'000 || bytes > (size_t{3} << 30);
  if (asItIs && !bad.empty())
    return badInput(
        fmt::format("{}: its record {} names source lines that are not there. Save the model again, or do not trust it",
                    path, bad[0]));
  try {
    out->declareUnknown(zip);
    if (asItIs) {
      out->stubbed_.clear();
      out->module_ = torch::jit::load(std::make_shared<MemoryReader>(file->bytes()), c10::kCPU);
    } else if (!out->loadStraightLine(zip, records, folder, longFrom)) {
      out->load(records);
    }
  } catch (const std::exception& e) {
    return badInput(fmt::format("{} is a TorchScript archive that PyTorch cannot load: {}", path, shortMessage(e)));
  }
  return out;
}

// Sizes and strides come from the pickle. PyTorch's reader does not check them against the storage.
static Status checkExtent(const at::Tensor& t) {
  if (!t.defined() || t.layout() != c10::kStrided || !t.has_storage() || t.numel() == 0) return done();
  int64_t end = 1;
  bool sound = !__builtin_add_overflow(end, t.storage_offset(), &end) && t.storage_offset() >= 0;
  for (int64_t i = 0; sound && i < t.dim(); ++i) {
    int64_t reach = 0;
    sound = t.size(i) > 0 && t.stride(i) >= 0 && !__builtin_mul_overflow(t.size(i) - 1, t.stride(i), &reach) &&
            !__builtin_add_overflow(end, reach, &end);
  }
  if (sound && static_cast<uint64_t>(end) <= t.storage().nbytes() / t.itemsize()) return done();
  return badInput(fmt::format("a tensor of sizes [{}] reaches past the {} bytes of its data; save the model again",
                              fmt::join(t.sizes(), ","), t.storage().nbytes()));
}

// What a sparse tensor keeps; PyTorch's reader does not check its places against its sizes.
Status TorchScriptFile::resolveSparse(const at::Tensor& t) {
  const bool isCoo = t.layout() == c10::kSparse;
  const bool isByRow = t.layout() == c10::kSparseCsr || t.layout() == c10::kSparseBsr;
  const std::vector<at::Tensor> parts = isCoo     ? std::vector{t._indices(), t._values()}
                                        : isByRow ? std::vector{t.crow_indices(), t.col_indices(), t.values()}
                                                  : std::vector{t.ccol_indices(), t.row_indices(), t.values()};
  for (const at::Tensor& part : parts)
    if (Status s = resolve(part); !s) return s;
  try {
    if (isCoo)
      at::_validate_sparse_coo_tensor_args(parts[0], parts[1], t.sizes());
    else
      at::_validate_sparse_compressed_tensor_args(parts[0], parts[1], parts[2], t.sizes(), t.layout());
  } catch (const std::exception& e) {
    return badInput(
        fmt::format("a sparse tensor of sizes [{}] is not valid: {}", fmt::join(t.sizes(), ","), shortMessage(e)));
  }
  return done();
}

Status TorchScriptFile::resolve(const at::Tensor& t) {
  if (t.defined() && (t.layout() == c10::kSparse || at::sparse_csr::is_sparse_compressed(t))) return resolveSparse(t);
  if (Status s = checkExtent(t); !s) return s;
  if (stubbed_.empty() || !t.defined() || !t.has_storage()) return done();
  c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
  if (storage->nbytes() == 0 || !storage->data() || !resolved_.insert(storage).second) return done();
  Stub stub{};
  // Every record of the archive that LibTorch read is at least as long as a stub, whatever the tensor claims.
  std::memcpy(&stub, storage->data(), sizeof stub);
  if (stub.mark != stubMark() || stub.record >= stubbed_.size()) return done();
  const ZipRecord& record = stubbed_[stub.record];
  if (storage->nbytes() > record.size)
    return badInput(
        fmt::format("a tensor of {} bytes lies in record {} of {} bytes", storage->nbytes(), record.name, record.size));
  char* data = file_->data() + record.offset;
  if (record.offset % 16 == 0) {
    auto* keep = new std::shared_ptr<MappedFile>(file_);
    storage->set_data_ptr_noswap(c10::DataPtr(
        data, keep, [](void* k) { delete static_cast<std::shared_ptr<MappedFile>*>(k); }, c10::Device(c10::kCPU)));
  } else {  // vector loads need aligned data: PyTorch aligns records to 64 bytes, other writers may not
    auto* copy = new std::string(data, storage->nbytes());
    storage->set_data_ptr_noswap(c10::DataPtr(
        copy->data(), copy, [](void* k) { delete static_cast<std::string*>(k); }, c10::Device(c10::kCPU)));
  }
  return done();
}

}  // namespace graft
