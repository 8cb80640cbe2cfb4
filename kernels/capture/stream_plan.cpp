#include "kernels/capture/stream_plan.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

namespace graft {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// Time is counted in halves of a kernel: what a wait between streams costs.
constexpr uint64_t kKernel = 2, kWait = 1;

using Dependencies = std::vector<std::vector<uint32_t>>;

/// For each step the earlier ones that it may not overtake; some are implied by others.
Dependencies dependenciesOf(const std::vector<RunStep>& steps) {
  struct Memory {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;  // since it was written
  };
  std::unordered_map<uint32_t, Memory> memory;
  std::vector<uint32_t> sinceBarrier;
  uint32_t barrier = kNone;
  Dependencies out(steps.size());
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const RunStep& step = steps[i];
    if (step.idle()) continue;
    std::vector<uint32_t>& mine = out[i];
    if (barrier != kNone) mine.push_back(barrier);
    if (step.everything) {
      mine.insert(mine.end(), sinceBarrier.begin(), sinceBarrier.end());
      sinceBarrier.clear();
      memory.clear();
      barrier = i;
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
    // The latest first: what it came after need not be waited for again. A step may read and write the same memory.
    std::sort(mine.begin(), mine.end(), std::greater<>());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    std::erase(mine, i);
  }
  return out;
}

/// Steps cut into chains, each of which shall stay on one stream: a step is followed by the successor with the most
/// work behind it, if that has no predecessor which ends later. Chains too short for a stream go with a neighbour.
class Chains {
 public:
  Chains(const std::vector<RunStep>& steps, const Dependencies& dependencies, uint64_t shortest)
      : steps_(steps), dependencies_(dependencies) {
    link();
    merge(shortest);
  }

  uint32_t of(uint32_t step) const { return host_[chain_[step]]; }
  uint64_t work(uint32_t chain) const { return work_[chain]; }  ///< of a chain that of() names
  uint64_t work(const RunStep& step) const { return step.kernels * kKernel; }
  uint64_t critical() const { return critical_; }

 private:
  void link() {
    const auto n = static_cast<uint32_t>(steps_.size());
    std::vector<uint64_t> end(n, 0), left(n, 0);  // of the longest path to a step's end, and from its begin on
    std::vector<uint32_t> latest(n, kNone);       // its predecessor that ends last
    heir_.assign(n, kNone);
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t d : dependencies_[i])
        if (latest[i] == kNone || end[d] >= end[latest[i]]) latest[i] = d;  // of several the earliest
      end[i] = (latest[i] == kNone ? 0 : end[latest[i]]) + work(steps_[i]);
      critical_ = std::max(critical_, end[i]);
    }
    for (uint32_t i = n; i-- > 0;) {
      left[i] = work(steps_[i]) + (heir_[i] == kNone ? 0 : left[heir_[i]]);
      for (uint32_t d : dependencies_[i])
        if (heir_[d] == kNone || left[i] >= left[heir_[d]]) heir_[d] = i;
    }
    chain_.assign(n, kNone);
    for (uint32_t i = 0; i < n; ++i) {
      if (steps_[i].idle()) continue;
      if (latest[i] != kNone && heir_[latest[i]] == i) {
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

  void merge(uint64_t shortest) {
    const auto n = static_cast<uint32_t>(first_.size());
    host_.assign(n, kNone);
    std::vector<uint32_t> order(n);
    for (uint32_t c = 0; c < n; ++c) order[c] = c;
    // Whoever needs what it makes, so that nobody else is held up. That chain ends later and has been looked at.
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return last_[a] > last_[b]; });
    for (uint32_t c : order) {
      if (work_[c] >= shortest)
        host_[c] = c;
      else if (heir_[last_[c]] != kNone)
        host_[c] = host_[chain_[heir_[last_[c]]]];
    }
    // Nobody needs it: whoever made what it reads. Chains are numbered by their first steps.
    for (uint32_t c = 0; c < n; ++c) {
      if (host_[c] != kNone) continue;
      const uint32_t before = latest_[first_[c]];
      host_[c] = before != kNone ? host_[chain_[before]] : longest(shortest);
    }
    for (uint32_t c = 0; c < n; ++c)
      if (host_[c] != c) work_[host_[c]] += work_[c];
  }

  /// The chain with the most work; the first one where all are short.
  uint32_t longest(uint64_t shortest) const {
    const auto most = std::max_element(work_.begin(), work_.end());
    return *most >= shortest ? static_cast<uint32_t>(most - work_.begin()) : 0;
  }

  const std::vector<RunStep>& steps_;
  const Dependencies& dependencies_;
  std::vector<uint32_t> heir_, latest_, chain_;  // by step
  std::vector<uint32_t> first_, last_, host_;    // by chain
  std::vector<uint64_t> work_;
  uint64_t critical_ = 0;
};

/// What is known while the steps are given their streams, in the order they ran.
class Placement {
 public:
  Placement(const std::vector<RunStep>& steps, const StreamOptions& options)
      : steps_(steps),
        dependencies_(dependenciesOf(steps)),
        chains_(steps, dependencies_, options.shortest * kKernel),
        streams_(std::max(options.streams, uint32_t{1})),
        known_(streams_) {}

  StreamPlan run() {
    plan_.places.resize(steps_.size());
    ends_.resize(steps_.size(), 0);
    passed_.resize(steps_.size());
    uint64_t total = 0, length = 0;
    for (uint32_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].idle()) continue;
      const uint32_t s = streamFor(i);
      place(i, s);
      plan_.streams = std::max(plan_.streams, s + 1);
      total += chains_.work(steps_[i]);
      length = std::max(length, ends_[i]);
    }
    plan_.total = static_cast<double>(total) / kKernel;
    plan_.length = static_cast<double>(length) / kKernel;
    plan_.critical = static_cast<double>(chains_.critical()) / kKernel;
    return std::move(plan_);
  }

 private:
  /// For each stream, one more than its last step that is over before something begins.
  using Passed = std::vector<uint32_t>;
  struct Stream {
    Passed passed;
    uint64_t free = 0;  ///< when its last step ends
    uint64_t held = 0;  ///< work that the chains it was given to have left
  };

  uint32_t streamFor(uint32_t i) {
    if (steps_[i].everything) return 0;
    const auto [known, fresh] = streamOf_.try_emplace(chains_.of(i), 0);
    if (fresh) {
      known->second = best(i);
      known_[known->second].held += chains_.work(known->first);
    }
    return known->second;
  }

  /// The stream that would be done first with what it has, and with what step i must wait for.
  uint32_t best(uint32_t i) const {
    uint32_t found = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t s = 0; s < streams_; ++s) {
      uint64_t begin = known_[s].free + known_[s].held;
      for (uint32_t d : dependencies_[i]) begin = std::max(begin, ends_[d] + (plan_.places[d].stream == s ? 0 : kWait));
      if (begin < least) least = begin, found = s;
    }
    return found;
  }

  void place(uint32_t i, uint32_t s) {
    StreamPlan::Place& place = plan_.places[i];
    Stream& stream = known_[s];
    place.stream = s;
    stream.passed.resize(streams_, 0);
    uint64_t begin = stream.free;
    for (uint32_t d : dependencies_[i]) {
      const uint32_t other = plan_.places[d].stream;
      if (other == s || stream.passed[other] > d) continue;
      place.waits.push_back(d);
      plan_.places[d].awaited = true;
      for (uint32_t t = 0; t < streams_; ++t) stream.passed[t] = std::max(stream.passed[t], passed_[d][t]);
      begin = std::max(begin, ends_[d] + kWait);
    }
    stream.passed[s] = i + 1;
    passed_[i] = stream.passed;
    ends_[i] = begin + chains_.work(steps_[i]);
    stream.free = ends_[i];
    stream.held -= std::min(stream.held, chains_.work(steps_[i]));
  }

  const std::vector<RunStep>& steps_;
  const Dependencies dependencies_;
  const Chains chains_;
  const uint32_t streams_;
  std::vector<Stream> known_;
  std::unordered_map<uint32_t, uint32_t> streamOf_;  // of a chain
  std::vector<uint64_t> ends_;
  std::vector<Passed> passed_;
  StreamPlan plan_;
};

}  // namespace

StreamPlan placeSteps(const std::vector<RunStep>& steps, const StreamOptions& options) {
  return Placement(steps, options).run();
}

bool isPromising(const StreamPlan& plan) {
  constexpr double kShare = 0.8, kKernelsBeside = 6;
  return plan.streams > 1 && plan.length <= plan.total * kShare && plan.total - plan.critical >= kKernelsBeside;
}

std::optional<StreamPlan> planStreams(const std::vector<RunStep>& steps, const StreamOptions& options) {
  if (options.streams < 2) return std::nullopt;
  StreamPlan plan = placeSteps(steps, options);
  if (!isPromising(plan)) return std::nullopt;
  return plan;
}

}  // namespace graft
