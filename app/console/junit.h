// JUnit XML, which CI systems show: a test for each model.
//
//   JUnitFile junit("report.xml", "graft apply");
//   junit.add("bert.pt", 1.2, error);       // failed
//   if (Status s = junit.write(); !s) …
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace graft::cli {

class JUnitFile {
 public:
  /// Writes nothing where the path is empty.
  JUnitFile(std::string path, std::string suite) : path_(std::move(path)), suite_(std::move(suite)) {}
  /// `skipped`: why there was nothing to do; empty where there was.
  void add(const std::string& name, double seconds, const std::optional<Error>& error, const std::string& skipped = "");
  Status write() const;
  std::string text() const;

 private:
  struct Case {
    std::string name;
    double seconds;
    std::optional<Error> error;
    std::string skipped;
  };
  std::string path_, suite_;
  std::vector<Case> cases_;
};

}  // namespace graft::cli
