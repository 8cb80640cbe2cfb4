// What a batch is to do: the models of folders, or the lines of a manifest.
//
//   auto tasks = workbench::readManifest("models.jsonl", shared);
//
// A manifest is JSON Lines: one object for each model. "model" is needed; paths are relative to the manifest.
//
//   {"model": "bert.pt", "inputs": "bert.inputs.pt", "rules": "fast.py", "recipe": "Serve", "output": "out/bert.pt"}
//   {"model": "t5.pt", "input": ["i64[1,16]:randint(0,100)"], "expect": {"Attention": 6}, "device": "cuda"}
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace graft::workbench {

/// One model of a batch, as the words of one call of this program: `graft apply` with its rules, or `graft optimize`
/// where none are named.
struct BatchTask {
  std::string model;
  std::string output;
  std::vector<std::string> words;  ///< "apply" or "optimize", the model, its options: without --json and --quiet
  std::vector<std::string> files;  ///< that the words name and that are read: the task is another one if they change

  bool operator==(const BatchTask&) const = default;
};

/// What holds for each model that says nothing else.
struct BatchDefaults {
  std::string rules, recipe, fusion, device, dtype;
  std::vector<std::string> libraries;
  std::string outputFolder;               ///< where results go that name no file
  std::vector<std::string> flags;         ///< for every call: "--no-capture", …
  std::vector<std::string> flagsOfRules;  ///< for the calls with rules: "--no-timing", …
};

/// The task for a model file. Inputs are those in a file beside it, x.inputs.pt for x.pt, where there is one. Usage
/// where no output is named, or where what only rules need is given without rules.
Result<BatchTask> taskFor(const std::string& model, const BatchDefaults&);
/// A task for each line. Errors are BadInput at the line: no JSON, a key that is none, no model.
Result<std::vector<BatchTask>> readManifest(const std::string& path, const BatchDefaults&);
/// A file of tasks as they are, for a part of a batch; and what such a file holds. BadInput where it is none.
Status writePart(const std::string& path, const std::vector<BatchTask>&);
Result<std::vector<BatchTask>> readPart(const std::string& path);
/// Usage where two tasks write the same file, or one writes over a file that another reads.
Status checkOutputs(const std::vector<BatchTask>&);

}  // namespace graft::workbench
