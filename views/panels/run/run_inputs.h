// What the run panel's line of inputs says: a file of tensors, or a specification for each input, in which names stand
// for sizes that are given behind: "i64[B,128]:0..30522 f32[B,128] B=1,8,32" runs three times.
//
//   parseRunInputs("f32[B,4] B=1,2").sets == {{"B=1", {"f32[1,4]"}}, {"B=2", {"f32[2,4]"}}}
#pragma once

#include <QString>
#include <QStringList>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

struct RunInputs {
  struct Set {
    QString label;      ///< "B=8 S=128"; empty where nothing is swept
    QStringList specs;  ///< one for each input; none: random by the model's own types
  };
  QString file;           ///< a file of tensors instead
  std::vector<Set> sets;  ///< at least one where `file` is empty
  QString error;          ///< what is wrong with the line; nothing else is set then
};
RunInputs parseRunInputs(const QString& line);

/// A path for people to read: "~/models/bert.pt". parseRunInputs reads it.
QString homeAsTilde(const QString& path);

/// The line for random inputs of the graph's own types. Sizes that are not known are asked for: they stand as names,
/// with a first guess behind. Empty where not even the number of dimensions is known.
QString specificationOf(const Graph&);

}  // namespace graft
