// CompilePlan: what runs when a model runs: generated kernels, hand-written ones, a library's, PyTorch's own; which of
// them could be one, and why they are not. Plain values, read from the engine's compile/plan.
//
//   CompilePlan plan = readPlan(reply.result);
//   if (const KernelInfo* k = plan.kernelOf("softmax_1")) show(k->name, k->share(plan));
#pragma once

#include <QDateTime>
#include <QHash>
#include <QJsonObject>
#include <QStringList>
#include <cmath>
#include <vector>

#include "core/ir/graph.h"

namespace graft {

/// Who wrote what runs.
enum class KernelOrigin { Generated, Edited, HandWritten, Library, Aten, User };
/// "generated", "edited by hand", "hand-written", "library", "PyTorch", "your own".
QString originText(KernelOrigin);

/// One launch of a kernel on a GPU, and what it takes of a multiprocessor.
struct LaunchInfo {
  QString function, schedule;
  double blocks = 0;
  int threads = 0;
  double sharedBytes = 0;  ///< of a block
  int registers = -1;      ///< of a thread; -1: not known, and neither is what follows
  double spillBytes = 0;   ///< stored and loaded because registers were too few
  double occupancy = NAN;  ///< share of the warps that a multiprocessor holds
  int resident = 0;        ///< blocks on a multiprocessor at a time
  QString limit;           ///< what more of would raise that
};

/// "64 blocks of 256 threads · 40 registers · 12.3 kB shared · occupancy 75 % (registers)".
QString launchText(const LaunchInfo&);

/// "62 %" of a share of the roofline; "> 100 %" where the data comes from caches.
QString shareText(double share);

/// Another schedule of a kernel's loops, and the kernel's time with it.
struct TriedInfo {
  QString schedule;  ///< "lanes i1, registers 2"
  double microseconds = NAN;
};

/// A generated kernel of the plan, or an operator that runs by itself.
struct KernelInfo {
  QString name;          ///< unique in the plan; of an operator, its node's
  QString label;         ///< "add · layer_norm", "linear"
  QStringList nodes;     ///< of the graph that is shown: what the canvas selects
  QStringList inside;    ///< the nodes that its code computes, in order: those of the graph, or of a kernel in place
  QStringList coloured;  ///< of these, all but views, whose code is an index: what has a colour of its own
  QStringList modules;   ///< paths, the first node's first
  KernelOrigin origin = KernelOrigin::Aten;
  bool isInPlace = false;  ///< the model calls it already
  QString op;              ///< of an operator that runs by itself
  QString product;         ///< the matrix product that it begins with
  QString schedule;        ///< what a person has chosen of its loops, a line for each
  QString edited;          ///< "loops" or "source" where a person has edited them
  QString choice;          ///< all that a person has chosen or written of it, as fusion.json has it; empty for nothing
  double bytesRead = 0, bytesWritten = 0;
  double bytesApart = NAN;  ///< that its operators read and write one by one
  double predicted = NAN;   ///< microseconds; NAN as below: not known
  double saved = NAN;       ///< of them, predicted
  double measured = NAN;
  double operators = NAN;            ///< measured: its operators one by one
  double generated = NAN;            ///< measured, without what a person has chosen
  double operationCount = NAN;       ///< floating-point operations of one call
  double least = NAN;                ///< microseconds that this machine's memory and arithmetic allow
  std::vector<TriedInfo> tried;      ///< the fastest first
  std::vector<LaunchInfo> launches;  ///< of a kernel for a GPU, once that is known
  QString whyNotCompiled;

  bool isGenerated() const { return origin == KernelOrigin::Generated || origin == KernelOrigin::Edited; }
  double bytes() const { return bytesRead + bytesWritten; }
};

/// Two nodes that were looked at: whether one kernel computes both, and why not.
struct FusionPair {
  QString producer, consumer, value, why;
  bool isLegal = false, isMerged = false, isAsked = false, areSiblings = false;
  double apart = 0, together = 0;  ///< predicted microseconds
  double measured = NAN;           ///< microseconds of both as they are now
};

/// What a person wants and cannot have.
struct UnappliedEntry {
  QString entry, why;
};

struct CompilePlan {
  std::vector<KernelInfo> kernels;  ///< all that runs, in the order of the graph
  std::vector<FusionPair> pairs;
  QHash<QString, QString> whyAlone;  ///< by node: why no kernel is generated for it
  std::vector<UnappliedEntry> unapplied;
  QString steering;  ///< what people want otherwise, as fusion.json has it
  bool isForGpu = false;
  int capability = 0;                               ///< of the GPU that it is for: 90 for 9.0; 0: of none
  double operatorsUs = NAN, kernelsUs = NAN;        ///< measured: one run as it is, and with the kernels
  double bytesPerMicrosecond = NAN;                 ///< measured: what this machine's memory does
  QHash<QString, double> operationsPerMicrosecond;  ///< measured: what its arithmetic does, by type ("f32")

  QDateTime measuredAt{};         ///< when; of times that are kept, the last ones
  bool isMeasuredBefore = false;  ///< by an earlier window
  bool isChangedSince = false;    ///< only what is as it was has a time: the plan has changed since it was measured

  bool isMeasured() const { return !std::isnan(kernelsUs); }
  /// Kernels without a time in a plan that has changed since others were measured.
  int unmeasuredCount() const;
  /// Of a measured time: "3.50 µs"; "not yet" where the plan has changed since others were measured; "–" of none.
  QString measuredText(double microseconds) const;
  int generatedCount() const;
  const KernelInfo* find(const QString& name) const;
  /// That computes the node, or looks through it at a value; null for none.
  const KernelInfo* kernelOf(const QString& node) const;
  /// The generated kernel of most nodes; null where none is generated.
  const KernelInfo* largest() const;
  /// Of the roofline, 0 … 1: the least time for its bytes and operations, in its time. NAN where nothing was measured.
  double share(const KernelInfo&) const;
  /// Whether its arithmetic is what takes that least time, and not its bytes.
  bool isBoundByArithmetic(const KernelInfo&) const;
  /// The pair of these nodes in any order; null for none.
  const FusionPair* pairOf(const QString& a, const QString& b) const;
  /// Pairs that lie between kernels, or in one: of the nodes of these.
  std::vector<const FusionPair*> pairsOf(const KernelInfo&) const;

  QHash<QString, size_t> byNode;  ///< into `kernels`
};

/// Adds what the engine's compile/usage tells of the plan's kernels.
void addUsage(CompilePlan& plan, const QJsonObject& usage);
std::vector<LaunchInfo> readLaunches(const QJsonArray& launches);

/// `graph`: that the plan is of. It gives the order.
CompilePlan readPlan(const QJsonObject& plan, const Graph& graph);

}  // namespace graft
