#include "core/archive/archive_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "core/archive/byte_reader.h"
#include "core/archive/debug_records.h"
#include "core/archive/python_names.h"

namespace graft {
namespace {

constexpr uint32_t maxDepth = 1000;

struct StorageClass {
  std::string_view name;
  size_t itemSize;
};
constexpr std::array<StorageClass, 21> storageClasses{{
    {"DoubleStorage", 8},      {"FloatStorage", 4},    {"HalfStorage", 2},         {"BFloat16Storage", 2},
    {"LongStorage", 8},        {"IntStorage", 4},      {"ShortStorage", 2},        {"CharStorage", 1},
    {"ByteStorage", 1},        {"BoolStorage", 1},     {"ComplexFloatStorage", 8}, {"ComplexDoubleStorage", 16},
    {"ComplexHalfStorage", 4}, {"QInt8Storage", 1},    {"QUInt8Storage", 1},       {"QInt32Storage", 4},
    {"QUInt4x2Storage", 1},    {"QUInt2x4Storage", 1}, {"UntypedStorage", 1},      {"Float8_e4m3fnStorage", 1},
    {"Float8_e5m2Storage", 1},
}};

// What the walk knows of a value on the unpickler's stack.
struct Item {
  enum class Kind : uint8_t { Other, Mark, Int, Text, Class, Storage } kind = Kind::Other;
  bool fetched = false;  // from the memo: PyTorch fills a container before it refers to it
  uint32_t depth = 1;
  int64_t number = 0;
  std::string_view text{};
  uint32_t tuple = UINT32_MAX;  // into tuples_, for tuples that may name a storage
};

class PickleWalk {
 public:
  PickleWalk(std::string_view bytes, std::string_view what,
             const std::function<std::optional<size_t>(std::string_view)>& storageSize)
      : bytes_(bytes), what_(what), storageSize_(storageSize) {}

  Status run() {
    while (problem_.empty() && !bytes_.ranOut()) {
      const char op = bytes_.number<char>();
      if (op == '.') {
        if (stack_.size() != 1 || stack_[0].kind == Item::Kind::Mark) problem_ = "it does not hold one value";
        break;
      }
      if (!bytes_.ranOut()) step(op);
    }
    if (bytes_.ranOut()) problem_ = "it ends in the middle";
    if (problem_.empty()) return done();
    return badInput(
        fmt::format("its record {} is not valid: {}. Save the model again, or do not trust it", what_, problem_));
  }

 private:
  void fail(std::string what) {
    if (problem_.empty()) problem_ = std::move(what);
  }

  void push(Item item) {
    if (item.depth > maxDepth) return fail(fmt::format("it is nested more than {} deep", maxDepth));
    if (stack_.size() > 10'000'000) return fail("it needs too large a stack");
    stack_.push_back(item);
  }
  Item pop() {
    if (stack_.empty()) {
      fail("it takes from an empty stack");
      return {};
    }
    const Item top = stack_.back();
    stack_.pop_back();
    return top;
  }
  void text(std::string_view s) {
    // Type expressions are parsed recursively when they are met.
    int depth = 0;
    for (char c : s) {
      depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
      if (depth > static_cast<int>(maxDepth)) return fail("a string nests brackets too deep");
    }
    push({.kind = Item::Kind::Text, .text = s});
  }
  /// Pops down to the last mark; the items are left in popped_.
  void popMark() {
    popped_.clear();
    while (problem_.empty()) {
      const Item i = pop();
      if (i.kind == Item::Kind::Mark) break;
      popped_.push_back(i);
    }
    std::reverse(popped_.begin(), popped_.end());
  }
  void popSome(size_t n) {
    popped_.assign(n, Item{});
    for (size_t i = n; i-- > 0;) popped_[i] = pop();
  }
  uint32_t depthAround() const {
    uint32_t depth = 0;
    for (const Item& i : popped_) depth = std::max(depth, i.depth);
    return depth + 1;
  }
  void pushTuple() {
    Item t{.depth = depthAround()};
    if (popped_.size() == 5 && popped_[0].kind == Item::Kind::Text && popped_[0].text == "storage") {
      t.tuple = static_cast<uint32_t>(tuples_.size());
      tuples_.push_back(popped_);
    }
    push(t);
  }
  /// The items in popped_ go into the container on top.
  void fill() {
    if (stack_.empty() || stack_.back().kind != Item::Kind::Other) return fail("it fills what is no container");
    if (stack_.back().fetched && !popped_.empty()) return fail("it fills a container after naming it");
    stack_.back().depth = std::max(stack_.back().depth, depthAround());
    if (stack_.back().depth > maxDepth) fail(fmt::format("it is nested more than {} deep", maxDepth));
  }
  void storage() {
    const Item id = pop();
    if (id.tuple == UINT32_MAX) return fail("it names a storage in an unknown way");
    const std::vector<Item>& t = tuples_[id.tuple];
    if (t[1].kind != Item::Kind::Class || t[2].kind != Item::Kind::Text || t[4].kind != Item::Kind::Int)
      return fail("it names a storage in an unknown way");
    const auto type = std::find_if(storageClasses.begin(), storageClasses.end(),
                                   [&](const StorageClass& c) { return c.name == t[1].text; });
    if (type == storageClasses.end())
      return fail(fmt::format("it holds a storage of class {}", t[1].text.substr(0, 60)));
    const auto size = storageSize_(t[2].text);
    if (!size) return fail(fmt::format("the data of tensor {} is missing", t[2].text.substr(0, 60)));
    if (t[4].number < 0 || static_cast<uint64_t>(t[4].number) > *size / type->itemSize)
      return fail(fmt::format("tensor {} claims {} elements, its record holds {} bytes", t[2].text.substr(0, 60),
                              t[4].number, *size));
    push({.kind = Item::Kind::Storage});
  }

  void memoise(uint32_t key) {
    if (stack_.empty()) return fail("it memoises nothing");
    if (stack_.back().kind == Item::Kind::Mark) return fail("it memoises a mark");
    memo_[key] = stack_.back();
    memo_[key].fetched = true;
  }
  void fetch(uint32_t key) {
    const auto it = memo_.find(key);
    if (it == memo_.end()) return fail("it refers to what it has not made");
    push(it->second);
  }

  void step(char op) {
    switch (op) {
      case '\x80':
        bytes_.number<uint8_t>();
        break;  // PROTO
      case '\x95':
        bytes_.number<uint64_t>();
        break;  // FRAME
      case '(':
        push({.kind = Item::Kind::Mark});
        break;  // MARK
      case 'N':
      case '\x88':
      case '\x89':
        push({});
        break;  // NONE, NEWTRUE, NEWFALSE
      case 'J':
        push({.kind = Item::Kind::Int, .number = bytes_.number<int32_t>()});
        break;
      case 'K':
        push({.kind = Item::Kind::Int, .number = bytes_.number<uint8_t>()});
        break;
      case 'M':
        push({.kind = Item::Kind::Int, .number = bytes_.number<uint16_t>()});
        break;
      case 'G':
        bytes_.take(8), push({});
        break;  // BINFLOAT
      case '\x8a':
        longInteger(bytes_.number<uint8_t>());
        break;  // LONG1
      case 'X':
        text(bytes_.take(bytes_.number<uint32_t>()));
        break;  // BINUNICODE
      case '\x8c':
      case 'U':
        text(bytes_.take(bytes_.number<uint8_t>()));
        break;  // SHORT_BINUNICODE, SHORT_BINSTRING
      case 'T':
      case 'B':
        text(bytes_.take(bytes_.number<uint32_t>()));
        break;  // BINSTRING, BINBYTES
      case '\x8d':
        text(bytes_.take(bytes_.number<uint64_t>()));
        break;  // BINUNICODE8
      case ']':
      case '}':
      case ')':
        push({});
        break;  // EMPTY_LIST, _DICT, _TUPLE
      case 't':
        popMark(), pushTuple();
        break;  // TUPLE
      case '\x85':
        popSome(1), pushTuple();
        break;
      case '\x86':
        popSome(2), pushTuple();
        break;
      case '\x87':
        popSome(3), pushTuple();
        break;
      case 'l':
      case 'd':
        popMark(), push({.depth = depthAround()});
        break;  // LIST, DICT
      case 'a':
        popSome(1), fill();
        break;  // APPEND
      case 's':
        popSome(2), fill();
        break;  // SETITEM
      case 'e':
      case 'u':
        popMark(), fill();
        break;  // APPENDS, SETITEMS
      case 'b':
        popSome(1), fill();
        break;  // BUILD
      case 'R':
      case '\x81':
        popSome(2), push({.depth = depthAround()});
        break;     // REDUCE, NEWOBJ
      case 'c': {  // GLOBAL
        bytes_.line();
        push({.kind = Item::Kind::Class, .text = bytes_.line()});
        break;
      }
      case 'Q':
        storage();
        break;  // BINPERSID
      case 'q':
        memoise(bytes_.number<uint8_t>());
        break;  // BINPUT
      case 'r':
        memoise(bytes_.number<uint32_t>());
        break;  // LONG_BINPUT
      case 'h':
        fetch(bytes_.number<uint8_t>());
        break;  // BINGET
      case 'j':
        fetch(bytes_.number<uint32_t>());
        break;  // LONG_BINGET
      default:
        fail(fmt::format("it holds opcode {:#04x}, which PyTorch does not write", static_cast<unsigned char>(op)));
    }
  }

  void longInteger(size_t bytes) {
    const std::string_view raw = bytes_.take(bytes);
    if (bytes > 8) return fail("an integer is too long");
    int64_t v = 0;
    for (size_t i = 0; i < raw.size(); ++i) v |= static_cast<int64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    if (!raw.empty() && raw.size() < 8 && (raw.back() & 0x80)) v -= int64_t{1} << (8 * raw.size());
    push({.kind = Item::Kind::Int, .number = v});
  }

  ByteReader bytes_;
  std::string_view what_;
  const std::function<std::optional<size_t>(std::string_view)>& storageSize_;
  std::string problem_;
  std::vector<Item> stack_, popped_;
  std::vector<std::vector<Item>> tuples_;
  std::unordered_map<uint32_t, Item> memo_;
};

// Finds in one pass over TorchScript's Python how deep an expression tree can get. Brackets nest. Between two commas of
// one bracket every operator, dot and keyword may add a level. LibTorch's lexer calls itself to skip ends of lines,
// comments and continued lines between two words.
class CodeDepth {
 public:
  explicit CodeDepth(std::string_view code) : code_(code) {}

  bool tooDeep() {
    levels_.assign(1, 0);
    bool lineStart = true;
    uint32_t skipped = 0;
    for (size_t i = 0; i < code_.size() && !deep_;) {
      const char c = code_[i];
      if (lineStart) {
        const size_t text = std::min(code_.find_first_not_of(" \t", i), code_.size());
        if (text - i > maxDepth) return true;
        lineStart = false;
        i = text;
        continue;
      }
      if (c == '\n' || c == '#' || c == '\\')
        deep_ |= ++skipped > maxDepth;
      else if (c != ' ' && c != '\t' && c != '\r')
        skipped = 0;
      if (c == '"' || c == '\'') {
        i = skipString(i, c);
      } else if (c == '#') {
        i = std::min(code_.find('\n', i), code_.size());
      } else if (isWordChar(c)) {
        i = word(i);
      } else {
        lineStart = c == '\n';
        symbol(c);
        ++i;
      }
    }
    return deep_;
  }

 private:
  size_t skipString(size_t i, char quote) {
    for (++i; i < code_.size() && code_[i] != quote && code_[i] != '\n'; ++i)
      if (code_[i] == '\\') ++i;
    return i + 1;
  }
  size_t word(size_t i) {
    size_t end = i;
    while (end < code_.size() && isWordChar(code_[end])) ++end;
    const std::string_view w = code_.substr(i, end - i);
    if (w == "not" || w == "and" || w == "or" || w == "if" || w == "else" || w == "elif" || w == "in" || w == "is")
      grow();
    return end;
  }
  void symbol(char c) {
    switch (c) {
      case '(':
      case '[':
      case '{':
        grow();
        levels_.push_back(0);
        break;
      case ')':
      case ']':
      case '}':
        total_ -= levels_.back();
        if (levels_.size() > 1)
          levels_.pop_back();
        else
          levels_.back() = 0;
        break;
      case ',':
        total_ -= levels_.back();
        levels_.back() = 0;
        break;
      case '\n':
        if (levels_.size() == 1) total_ = levels_.back() = 0;
        break;
      case ' ':
      case '\t':
      case '\r':
      case ':':
        break;
      default:
        grow();
    }
  }
  void grow() {
    ++levels_.back();
    deep_ |= ++total_ > maxDepth;
  }

  std::string_view code_;
  std::vector<uint32_t> levels_;
  uint32_t total_ = 0;
  bool deep_ = false;
};

/// The text of each function of that name: up to the next line that is not indented deeper than its "def".
std::vector<std::string_view> functionBodies(std::string_view code, std::string_view name) {
  std::vector<std::string_view> out;
  const std::string head = fmt::format("def {}(", name);
  for (size_t at = code.find(head); at != code.npos; at = code.find(head, at + 1)) {
    const size_t lineStart = code.rfind('\n', at) == code.npos ? 0 : code.rfind('\n', at) + 1;
    const size_t indent = at - lineStart;
    size_t end = code.find('\n', at);
    // The signature may span lines; it ends with the first line that ends in ':'.
    while (end != code.npos && end > 0 && code[end - 1] != ':') end = code.find('\n', end + 1);
    while (end != code.npos) {
      const size_t text = code.find_first_not_of(" \n", end);
      if (text == code.npos) break;
      const size_t start = code.rfind('\n', text) + 1;
      if (text - start <= indent) break;
      end = code.find('\n', text);
    }
    out.push_back(code.substr(at, end == code.npos ? code.npos : end - at));
  }
  return out;
}

bool mentions(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const bool before = at == 0 || !isWordChar(text[at - 1]);
    const bool after = at + word.size() >= text.size() || !isWordChar(text[at + word.size()]);
    if (before && after) return true;
  }
  return false;
}

}  // namespace

Status checkPickle(std::string_view pickle, std::string_view what,
                   const std::function<std::optional<size_t>(std::string_view)>& storageSize) {
  return PickleWalk(pickle, what, storageSize).run();
}

Status checkCode(std::string_view code, std::string_view what) {
  if (code.find('\0') != code.npos) return badInput(fmt::format("its record {} is no source text", what));
  if (CodeDepth(code).tooDeep())
    return badInput(fmt::format(
        "its record {} nests expressions, or skips lines, more than {} deep; Graft does not open it", what, maxDepth));
  return done();
}

Result<TorchScriptFacts> checkTorchScript(const ZipDirectory& zip, const std::string& path) {
  const auto of = [&](const Error& e) { return badInput(fmt::format("{}: {}", path, e.message)); };
  TorchScriptFacts facts;
  std::string_view fileOperator;
  for (const ZipRecord& r : zip.records()) {
    const std::string_view bytes = zip.bytes(r);
    if (r.name.ends_with(".pkl")) {
      // "data.pkl" keeps its tensors in the folder "data/".
      const std::string folder = r.name.substr(0, r.name.size() - 4) + "/";
      const auto sizeOf = [&](std::string_view key) -> std::optional<size_t> {
        // The archive keeps a traced model's inputs as shapes without data. Graft does not load them.
        if (folder == "traced_inputs/") return SIZE_MAX;
        const ZipRecord* record = zip.find(folder + std::string(key));
        return record ? std::optional<size_t>(record->size) : std::nullopt;
      };
      if (Status s = checkPickle(bytes, r.name, sizeOf); !s) return of(s.error());
    } else if (r.name.ends_with(".debug_pkl")) {
      if (Status s = checkPickle(bytes, r.name, [](std::string_view) { return std::nullopt; }); !s)
        return of(s.error());
      if (!isSoundDebugRecord(bytes)) facts.badDebugRecords.push_back(r.name);
    } else if (r.name.starts_with("code/")) {
      if (Status s = checkCode(bytes, r.name); !s) return of(s.error());
      facts.runsCodeOnLoad |= !functionBodies(bytes, "__setstate__").empty();
      for (std::string_view word : {"save", "from_file", "load", "tofile"})
        if (mentions(bytes, word)) fileOperator = word;
    }
  }
  if (facts.runsCodeOnLoad) {
    if (!fileOperator.empty())
      return badInput(
          fmt::format("{} wants to run code while it is opened, and names the file operator '{}'. Graft does not open "
                      "it; if you trust it, export the model again without __setstate__",
                      path, fileOperator));
    for (const ZipRecord& r : zip.records()) {
      if (!r.name.starts_with("code/")) continue;
      for (std::string_view body : functionBodies(zip.bytes(r), "__setstate__"))
        if (mentions(body, "while") || mentions(body, "for"))
          return badInput(
              fmt::format("{} wants to run a loop while it is opened (__setstate__ in {}). Graft does not open it; if "
                          "you trust it, export the model again without __setstate__",
                          path, r.name));
    }
  }
  return facts;
}

}  // namespace graft
