// The documents that commands print with --json and write with --report. Each is an object with "schema": 1 at its top.
// Commands that take several models put one object for each, also where there is only one, into a list:
//
//   {"schema": 1, "models": [{"model": "a.pt", "rules": […]}, {"model": "b.pt", "rules": […]}]}
//
// docs/json holds a JSON Schema for each command, and a test validates what the commands print against it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/workbench/apply.h"
#include "app/workbench/batch/batch.h"
#include "app/workbench/bench.h"
#include "app/workbench/cases/test_rules.h"
#include "app/workbench/compare.h"
#include "app/workbench/compile/generated_code.h"
#include "app/workbench/export.h"
#include "app/workbench/info.h"
#include "app/workbench/match.h"
#include "app/workbench/optimize/optimize.h"
#include "app/workbench/optimize/shipped_recipes.h"
#include "app/workbench/profile.h"
#include "app/workbench/run.h"
#include "app/workbench/side_by_side/side_by_side.h"
#include "app/workbench/training/partition.h"
#include "app/workbench/training/train_bench.h"

namespace graft {

nlohmann::json toJson(const UserLibrary&);
nlohmann::json toJson(const MissingOperator&);
nlohmann::json toJson(const ReturnedRole&);
nlohmann::json toJson(const TrainingSignature&);

}  // namespace graft

namespace graft::workbench {

/// A picture that was drawn, by views/drawing and not by the workbench.
struct DrawnModel {
  std::string model, output;
  size_t nodes = 0;
};

nlohmann::json toJson(const ApplyReport&);
nlohmann::json toJson(const BatchReport&);
nlohmann::json toJson(const BenchReport&);
nlohmann::json toJson(const TrainBenchReport&);
nlohmann::json toJson(const std::vector<CheckedRules>&);
nlohmann::json toJson(const std::vector<TestedRules>&);
nlohmann::json toJson(const CodeReport&);
nlohmann::json toJson(const Comparison&);
nlohmann::json toJson(const ConvertReport&);
nlohmann::json toJson(const DrawnModel&);
nlohmann::json toJson(const ExplainedModel&);
nlohmann::json toJson(const FittedModel&);
nlohmann::json toJson(const KernelInfo&);
nlohmann::json toJson(const MatchedModel&);
nlohmann::json toJson(const ModelInfo&);
nlohmann::json toJson(const OptimizeReport&);
nlohmann::json toJson(const PartitionReport&);
/// As `graft partition --cut` takes it in a file.
nlohmann::json toJson(const CutWishes&);
nlohmann::json toJson(const Timeline&);
nlohmann::json toJson(const ProfileReport&);
nlohmann::json toJson(const RunReport&);
nlohmann::json toJson(const ShownModel&);
nlohmann::json toJson(const SideBySide&);

/// The text of a command's document: what it reports, with the schema's number at its top. Bytes that are no UTF-8
/// become U+FFFD.
std::string document(nlohmann::json report);
/// The same for a command that takes several models: the reports of those that worked.
std::string documentOfModels(nlohmann::json reports);

}  // namespace graft::workbench
