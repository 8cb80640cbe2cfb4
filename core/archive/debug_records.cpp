#include "core/archive/debug_records.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/archive/byte_reader.h"

namespace graft {
namespace {

constexpr std::string_view tableFormat = "FORMAT_WITH_STRING_TABLE";

struct DebugItem {
  enum class Kind : uint8_t { None, Mark, Int, Text, Items, Function } kind = Kind::None;
  int64_t number = 0;
  std::string_view text{};
  uint32_t items = 0;  // into Unpickler::lists
};

// Unpickles the few opcodes of such a record. No value for anything else.
class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

  std::optional<DebugItem> run() {
    while (good_ && !bytes_.atEnd()) {
      const char op = bytes_.number<char>();
      if (op == '.') return stack_.size() == 1 ? std::optional(stack_[0]) : std::nullopt;
      step(op);
      good_ = good_ && !bytes_.ranOut();
    }
    return std::nullopt;
  }
  const std::vector<DebugItem>& items(const DebugItem& v) const { return lists_[v.items]; }

 private:
  void integer(int64_t n) { stack_.push_back({DebugItem::Kind::Int, n}); }
  DebugItem pop() {
    if (stack_.empty()) {
      good_ = false;
      return {};
    }
    const DebugItem v = stack_.back();
    stack_.pop_back();
    return v;
  }
  std::vector<DebugItem> fromMark() {
    size_t from = stack_.size();
    while (from > 0 && stack_[from - 1].kind != DebugItem::Kind::Mark) --from;
    good_ = good_ && from > 0;
    if (!good_) return {};
    std::vector<DebugItem> out(stack_.begin() + static_cast<std::ptrdiff_t>(from), stack_.end());
    stack_.resize(from - 1);
    return out;
  }
  void push(std::vector<DebugItem> items) {
    stack_.push_back({DebugItem::Kind::Items, 0, {}, static_cast<uint32_t>(lists_.size())});
    lists_.push_back(std::move(items));
  }
  void tuple(size_t n) {
    std::vector<DebugItem> items(n);
    for (size_t i = n; i-- > 0;) items[i] = pop();
    push(std::move(items));
  }
  void remember(uint32_t key) {
    good_ = good_ && !stack_.empty();
    if (good_) memo_[key] = stack_.back();
  }
  void recall(uint32_t key) {
    const auto it = memo_.find(key);
    good_ = good_ && it != memo_.end();
    if (good_) stack_.push_back(it->second);
  }
  void global() {
    const std::string_view module = bytes_.line(), name = bytes_.line();
    good_ = good_ && module == "torch.jit._pickle" && name == "build_intlist";
    if (!good_) return;
    stack_.push_back({DebugItem::Kind::Function});
  }
  // build_intlist((list,)) is the list.
  void reduce() {
    const DebugItem arguments = pop(), function = pop();
    good_ = good_ && function.kind == DebugItem::Kind::Function && arguments.kind == DebugItem::Kind::Items &&
            lists_[arguments.items].size() == 1 && lists_[arguments.items][0].kind == DebugItem::Kind::Items;
    if (good_) stack_.push_back(lists_[arguments.items][0]);
  }
  void append(std::vector<DebugItem> items) {
    good_ = good_ && !stack_.empty() && stack_.back().kind == DebugItem::Kind::Items;
    if (!good_) return;
    auto& list = lists_[stack_.back().items];
    list.insert(list.end(), items.begin(), items.end());
  }

  void step(char op) {
    switch (op) {
      case '\x80':
        bytes_.number<uint8_t>();
        break;  // PROTO
      case '(':
        stack_.push_back({DebugItem::Kind::Mark});
        break;
      case 'N':
        stack_.push_back({});
        break;
      case 'K':
        integer(bytes_.number<uint8_t>());
        break;
      case 'M':
        integer(bytes_.number<uint16_t>());
        break;
      case 'J':
        integer(bytes_.number<int32_t>());
        break;
      case '\x8a': {  // LONG1, as PyTorch writes it
        const size_t n = bytes_.number<uint8_t>();
        int64_t v = 0;
        const std::string_view raw = bytes_.take(n);
        good_ = good_ && n == sizeof v && raw.size() == n;
        if (good_) std::memcpy(&v, raw.data(), sizeof v);
        integer(v);
        break;
      }
      case 'X':
        stack_.push_back({DebugItem::Kind::Text, 0, bytes_.take(bytes_.number<uint32_t>())});
        break;
      case ']':
      case ')':
        push({});
        break;  // EMPTY_LIST, EMPTY_TUPLE
      case 't':
        push(fromMark());
        break;
      case '\x85':
      case '\x86':
      case '\x87':
        tuple(static_cast<size_t>(static_cast<unsigned char>(op) - 0x84));
        break;
      case 'e':
        append(fromMark());
        break;
      case 'a':
        append({pop()});
        break;
      case 'c':
        global();
        break;
      case 'R':
        reduce();
        break;
      case 'q':
        remember(bytes_.number<uint8_t>());
        break;
      case 'r':
        remember(bytes_.number<uint32_t>());
        break;
      case 'h':
        recall(bytes_.number<uint8_t>());
        break;
      case 'j':
        recall(bytes_.number<uint32_t>());
        break;
      default:
        good_ = false;
    }
  }

  ByteReader bytes_;
  bool good_ = true;
  std::vector<DebugItem> stack_;
  std::vector<std::vector<DebugItem>> lists_;
  std::unordered_map<uint32_t, DebugItem> memo_;
};

class Record {
 public:
  explicit Record(std::string_view bytes) : read_(bytes) {}

  bool sound() {
    const auto top = read_.run();
    const auto* parts = top ? items(*top) : nullptr;
    if (!parts || parts->empty()) return false;
    const std::vector<DebugItem>* ranges = parts;
    if ((*parts)[0].kind == DebugItem::Kind::Text) {
      if (parts->size() != 3 || (*parts)[0].text != tableFormat) return false;
      table_ = items((*parts)[1]);
      ranges = items((*parts)[2]);
      if (!table_ || !ranges) return false;  // no ranges: those of an empty source, such as that of built-in classes
      for (const DebugItem& v : *table_)
        if (v.kind != DebugItem::Kind::Text) return false;
    }
    int64_t last = -1;
    for (const DebugItem& v : *ranges) {
      const auto* entry = items(v);
      if (!entry || entry->size() != 3 || !isInt((*entry)[0]) || !isInt((*entry)[2])) return false;
      const int64_t offset = (*entry)[0].number;
      if (offset < last || (last < 0 && offset != 0) || !range((*entry)[1])) return false;
      last = offset;
    }
    return true;
  }

 private:
  const std::vector<DebugItem>* items(const DebugItem& v) const {
    return v.kind == DebugItem::Kind::Items ? &read_.items(v) : nullptr;
  }
  static bool isInt(const DebugItem& v) { return v.kind == DebugItem::Kind::Int; }

  // (source, start, end)
  bool range(const DebugItem& v) {
    const auto* parts = items(v);
    if (!parts || parts->size() != 3 || !isInt((*parts)[1]) || !isInt((*parts)[2])) return false;
    const int64_t start = (*parts)[1].number, end = (*parts)[2].number;
    const auto length = sourceLength((*parts)[0]);
    // Where PyTorch knows no line, it marks one character of an empty text.
    return length && 0 <= start && start <= end && end <= std::max<int64_t>(*length, 1);
  }

  // (pieces, file, first line); many ranges share one.
  std::optional<int64_t> sourceLength(const DebugItem& v) {
    const auto* parts = items(v);
    if (!parts || parts->size() != 3 || !isInt((*parts)[2])) return std::nullopt;
    const auto [known, isNew] = lengths_.try_emplace(v.items, -1);
    if (!isNew) return known->second < 0 ? std::nullopt : std::optional(known->second);
    const DebugItem &text = (*parts)[0], &file = (*parts)[1];
    if (!table_) {
      const bool named = file.kind == DebugItem::Kind::Text || file.kind == DebugItem::Kind::None;
      if (text.kind != DebugItem::Kind::Text || !named) return std::nullopt;
      return known->second = static_cast<int64_t>(text.text.size());
    }
    const auto* pieces = items(text);
    if (!pieces || !inTable(file)) return std::nullopt;
    int64_t length = 0;
    for (const DebugItem& piece : *pieces) {
      if (!inTable(piece)) return std::nullopt;
      length += static_cast<int64_t>((*table_)[static_cast<size_t>(piece.number)].text.size());
    }
    return known->second = length;
  }
  bool inTable(const DebugItem& v) const {
    return isInt(v) && v.number >= 0 && static_cast<size_t>(v.number) < table_->size();
  }

  Unpickler read_;
  const std::vector<DebugItem>* table_ = nullptr;
  std::unordered_map<uint32_t, int64_t> lengths_;
};

}  // namespace

bool isSoundDebugRecord(std::string_view pickle) { return Record(pickle).sound(); }

}  // namespace graft
