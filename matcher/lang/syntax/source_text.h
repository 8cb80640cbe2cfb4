// SourceText: a rule file's text made ready for LibTorch's parser, which reads a smaller Python than people write.
// Every change keeps each character's place, so that a column in what the parser saw is the column in the file.
//
//   SourceText text = SourceText::scan(content, "rules.py");   // throws Failure
//   parse(text.masked());                // imports, decorators, comments and the contents of strings are blank
//   text.decodeString(offset, length);   // what the string at that offset says
//
// The scan is also the guard in front of the parser: it bounds size, nesting and the length of a statement, and it
// names the Python that rules cannot hold (loops, lambda, f-strings), so the parser never recurses without bound and
// never fails oddly.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft::lang {

/// Thrown inside the front end only; its entry points turn it into a Result.
struct Failure {
  Error error;
};

/// Offsets into the file, the end exclusive.
struct Span {
  uint32_t begin = 0, end = 0;
};

/// One name of `from module import name as local`, with the place of `name`.
struct ImportedName {
  std::string module, name, local;
  uint32_t offset = 0;
};

class SourceText {
 public:
  static SourceText scan(std::string_view content, std::string_view file);

  const std::string& file() const { return file_; }
  const std::string& original() const { return original_; }
  /// The text for the parser; as long as the file.
  const std::string& masked() const { return masked_; }
  /// Names that import lines bring in, with what they stand for: "F" is "torch.nn.functional".
  const std::map<std::string, std::string, std::less<>>& imports() const { return imports_; }
  /// The names of `from … import …`, in the order of the file.
  const std::vector<ImportedName>& importedNames() const { return importedNames_; }
  /// The string literal whose masked form begins at `offset`; neighbours that Python joins are joined until `length`
  /// masked characters are read.
  std::string decodeString(uint32_t offset, size_t length) const;
  int lineOf(uint32_t offset) const;
  Position position(uint32_t offset) const;
  SourceLocation location(Span span) const;
  /// The name in `name=value`, found from the value.
  Span keywordSpan(std::string_view name, Span value) const;
  [[noreturn]] void fail(uint32_t offset, std::string message) const;

 private:
  friend class Scanner;
  std::string_view lineText(int line) const;

  std::string file_, original_, masked_;
  std::vector<uint32_t> lineStarts_;
  std::map<std::string, std::string, std::less<>> imports_;
  std::vector<ImportedName> importedNames_;
};

}  // namespace graft::lang
