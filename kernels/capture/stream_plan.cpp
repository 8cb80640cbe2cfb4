#include "kernels/capture/stream_plan.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace graft {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// Times are in units of half a kernel, the estimated cost of a wait between streams.
constexpr uint64_t kKernel = 2, kWait = 1;

using Dependencies = std::vector<std::vector<uint32_t>>;

/// For each step the earlier steps that it depends on, latest first. Some are implied by others.
Dependencies dependenciesOf(const std::vector<RunStep>& steps) {
  struct Memory {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;  // since the last write
  };
  std::unordered_map<uint32_t, Memory> memory;
  std::vector<uint32_t> sinceBarrier;
  uint32_t lastBarrier = kNone;
  Dependencies out(steps.size());
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const RunStep& step = steps[i];
    if (step.idle()) continue;
    std::vector<uint32_t>& mine = out[i];
    if (lastBarrier != kNone) mine.push_back(lastBarrier);
    if (step.barrier) {
      mine.insert(mine.end(), sinceBarrier.begin(), sinceBarrier.end());
      sinceBarrier.clear();
      memory.clear();
      lastBarrier = i;
    } else {
      sinceBarrier.push_back(i);
      for (uint32_t m : step.reads) {
        Memory& known = memory[m];
        if (known.writer != kNone) mine.push_back(known.writer);
        known.readers.push_back(i);
      }
      for (uint32_t m : step.writes) {
        Memory& known = memory[m];
        if (known.writer != kNone) mine.push_back(known.writer);
        mine.insert(mine.end(), known.readers.begin(), known.readers.end());
        known.readers.clear();
        known.writer = i;
      }
    }
    // The latest first: its dependencies need no waits of their own. A step may read and write the same memory.
    std::sort(mine.begin(), mine.end(), std::greater<>());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    std::erase(mine, i);
  }
  return out;
}

/// Clusters the steps into chains, each of which stays on one stream. A chain continues from a step to the successor
/// with the longest path to the end of the run, unless another predecessor of that successor ends later. Chains too
/// short for a stream of their own are merged into a neighbour. In the manner of linear clustering (Kim and Browne,
/// 1988).
class Chains {
 public:
  Chains(const std::vector<RunStep>& steps, const Dependencies& dependencies, uint64_t minWork)
      : steps_(steps), dependencies_(dependencies) {
    link();
    merge(minWork);
  }

  uint32_t chainOf(uint32_t step) const { return mergedInto_[chain_[step]]; }
  uint64_t work(uint32_t chain) const { return work_[chain]; }  ///< of a chain that chainOf() returns
  uint64_t work(const RunStep& step) const { return step.kernels * kKernel; }
  uint64_t criticalPath() const { return criticalPath_; }

 private:
  void link() {
    const auto n = static_cast<uint32_t>(steps_.size());
    std::vector<uint64_t> end(n, 0), left(n, 0);  // the longest path up to a step's end, and from its begin on
    std::vector<uint32_t> latest(n, kNone);       // the predecessor that ends last
    successor_.assign(n, kNone);
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t d : dependencies_[i])
        if (latest[i] == kNone || end[d] >= end[latest[i]]) latest[i] = d;  // the earliest of several
      end[i] = (latest[i] == kNone ? 0 : end[latest[i]]) + work(steps_[i]);
      criticalPath_ = std::max(criticalPath_, end[i]);
    }
    for (uint32_t i = n; i-- > 0;) {
      left[i] = work(steps_[i]) + (successor_[i] == kNone ? 0 : left[successor_[i]]);
      for (uint32_t d : dependencies_[i])
        if (successor_[d] == kNone || left[i] >= left[successor_[d]]) successor_[d] = i;
    }
    chain_.assign(n, kNone);
    for (uint32_t i = 0; i < n; ++i) {
      if (steps_[i].idle()) continue;
      if (latest[i] != kNone && successor_[latest[i]] == i) {
        chain_[i] = chain_[latest[i]];
      } else {
        chain_[i] = static_cast<uint32_t>(first_.size());
        first_.push_back(i), last_.push_back(i), work_.push_back(0);
      }
      last_[chain_[i]] = i;
      work_[chain_[i]] += work(steps_[i]);
    }
    latest_ = std::move(latest);
  }

  void merge(uint64_t minWork) {
    const auto n = static_cast<uint32_t>(first_.size());
    mergedInto_.assign(n, kNone);
    std::vector<uint32_t> order(n);
    for (uint32_t c = 0; c < n; ++c) order[c] = c;
    // A short chain joins the chain that needs its result, so that it delays no other. That chain ends later, so it
    // comes first in this order.
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return last_[a] > last_[b]; });
    for (uint32_t c : order) {
      if (work_[c] >= minWork)
        mergedInto_[c] = c;
      else if (successor_[last_[c]] != kNone)
        mergedInto_[c] = mergedInto_[chain_[successor_[last_[c]]]];
    }
    // No chain needs its result: it joins the chain that produced what it reads. Chains are numbered by their first
    // steps.
    for (uint32_t c = 0; c < n; ++c) {
      if (mergedInto_[c] != kNone) continue;
      const uint32_t before = latest_[first_[c]];
      mergedInto_[c] = before != kNone ? mergedInto_[chain_[before]] : longest(minWork);
    }
    for (uint32_t c = 0; c < n; ++c)
      if (mergedInto_[c] != c) work_[mergedInto_[c]] += work_[c];
  }

  /// The chain with the most work, or the first chain where all are short.
  uint32_t longest(uint64_t minWork) const {
    const auto most = std::max_element(work_.begin(), work_.end());
    return *most >= minWork ? static_cast<uint32_t>(most - work_.begin()) : 0;
  }

  const std::vector<RunStep>& steps_;
  const Dependencies& dependencies_;
  std::vector<uint32_t> successor_, latest_, chain_;  // by step
  std::vector<uint32_t> first_, last_, mergedInto_;   // by chain
  std::vector<uint64_t> work_;
  uint64_t criticalPath_ = 0;
};

/// Assigns streams to the steps in the order they ran: list scheduling, which gives each new chain the stream that
/// would finish it first.
class Scheduler {
 public:
  Scheduler(const std::vector<RunStep>& steps, const StreamOptions& options)
      : steps_(steps),
        dependencies_(dependenciesOf(steps)),
        chains_(steps, dependencies_, options.minChainKernels * kKernel),
        streams_(std::max(options.streams, uint32_t{1})),
        states_(streams_) {}

  StreamPlan run() {
    plan_.assignments.resize(steps_.size());
    ends_.resize(steps_.size(), 0);
    passed_.resize(steps_.size());
    uint64_t total = 0, length = 0;
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].idle()) continue;
      const uint32_t s = streamFor(i);
      assign(i, s);
      plan_.streams = std::max(plan_.streams, s + 1);
      total += chains_.work(steps_[i]);
      length = std::max(length, ends_[i]);
    }
    plan_.total = static_cast<double>(total) / kKernel;
    plan_.length = static_cast<double>(length) / kKernel;
    plan_.criticalPath = static_cast<double>(chains_.criticalPath()) / kKernel;
    return std::move(plan_);
  }

 private:
  /// For each stream, one more than its last step that has completed at some point of the plan.
  using Passed = std::vector<uint32_t>;
  struct Stream {
    Passed passed;
    uint64_t freeAt = 0;   ///< when its last step ends
    uint64_t pending = 0;  ///< work left in the chains that it was given
  };

  uint32_t streamFor(uint32_t i) {
    if (steps_[i].barrier) return 0;
    const auto [known, fresh] = streamOf_.try_emplace(chains_.chainOf(i), 0);
    if (fresh) {
      known->second = best(i);
      states_[known->second].pending += chains_.work(known->first);
    }
    return known->second;
  }

  /// The stream on which step i could begin first, after the stream's pending work and the steps that i depends on.
  uint32_t best(uint32_t i) const {
    uint32_t found = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t s = 0; s < streams_; ++s) {
      uint64_t begin = states_[s].freeAt + states_[s].pending;
      for (uint32_t d : dependencies_[i])
        begin = std::max(begin, ends_[d] + (plan_.assignments[d].stream == s ? 0 : kWait));
      if (begin < least) least = begin, found = s;
    }
    return found;
  }

  void assign(uint32_t i, uint32_t s) {
    StreamPlan::Assignment& assignment = plan_.assignments[i];
    Stream& stream = states_[s];
    assignment.stream = s;
    stream.passed.resize(streams_, 0);
    uint64_t begin = stream.freeAt;
    for (uint32_t d : dependencies_[i]) {
      const uint32_t other = plan_.assignments[d].stream;
      if (other == s || stream.passed[other] > d) continue;
      assignment.waits.push_back(d);
      plan_.assignments[d].awaited = true;
      for (uint32_t t = 0; t < streams_; ++t) stream.passed[t] = std::max(stream.passed[t], passed_[d][t]);
      begin = std::max(begin, ends_[d] + kWait);
    }
    stream.passed[s] = i + 1;
    passed_[i] = stream.passed;
    ends_[i] = begin + chains_.work(steps_[i]);
    stream.freeAt = ends_[i];
    stream.pending -= std::min(stream.pending, chains_.work(steps_[i]));
  }

  const std::vector<RunStep>& steps_;
  const Dependencies dependencies_;
  const Chains chains_;
  const uint32_t streams_;
  std::vector<Stream> states_;
  std::unordered_map<uint32_t, uint32_t> streamOf_;  // of a chain
  std::vector<uint64_t> ends_;
  std::vector<Passed> passed_;
  StreamPlan plan_;
};

}  // namespace

StreamPlan assignStreams(const std::vector<RunStep>& steps, const StreamOptions& options) {
  return Scheduler(steps, options).run();
}

bool isPromising(const StreamPlan& plan) {
  constexpr double kMaxShare = 0.8, kMinKernelsOffPath = 6;
  return plan.streams > 1 && plan.length <= plan.total * kMaxShare &&
         plan.total - plan.criticalPath >= kMinKernelsOffPath;
}

std::optional<StreamPlan> planStreams(const std::vector<RunStep>& steps, const StreamOptions& options) {
  if (options.streams < 2) return std::nullopt;
  StreamPlan plan = assignStreams(steps, options);
  if (!isPromising(plan)) return std::nullopt;
  return plan;
}

}  // namespace graft
