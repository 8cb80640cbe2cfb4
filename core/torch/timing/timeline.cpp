#include "core/torch/timeline.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <deque>
#include <filesystem>
#include <map>

#include "core/base/demangle.h"
#include "core/torch/cuda_runner.h"
#include "core/torch/values/device.h"

namespace graft {
namespace {

constexpr int kWarmUp = 2, kRuns = 5;
/// A thread that does less than that of the run is not shown.
constexpr double kLeastShare = 0.01;

/// Microseconds since 1970: the profiler's clock.
double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What a thread of this process has used of processors, in microseconds. The kernel's numbering of clocks is part of
/// its interface (clock_getcpuclockid does the same for processes).
double processorTime(pid_t thread) {
  constexpr int perThread = 4, ofScheduler = 2;
  timespec t{};
  const auto clock = static_cast<clockid_t>((~static_cast<unsigned>(thread) << 3U) | perThread | ofScheduler);
  if (clock_gettime(clock, &t) != 0) return 0;
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

std::vector<pid_t> otherThreads() {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  std::vector<pid_t> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", none))
    if (const int id = std::atoi(entry.path().filename().c_str()); id > 0 && id != own) out.push_back(id);
  std::sort(out.begin(), out.end());
  return out;
}

std::string operatorOf(const Graph& g, NodeId id) { return std::string(g.node(id).op->baseName()); }

/// Where each node begins, and what the other threads had used by then. The clocks' own time is taken out.
struct Marks {
  std::vector<NodeId> nodes;
  std::vector<double> starts;
  std::vector<std::vector<double>> used;  ///< of each mark and the end: by thread
  double begin = 0, end = 0, taken = 0;

  void mark(const std::vector<pid_t>& threads) {
    const double at = now();
    starts.push_back(at - begin - taken);
    std::vector<double>& times = used.emplace_back();
    for (const pid_t t : threads) times.push_back(processorTime(t));
    taken += now() - at;
  }
};

Result<Marks> runWithMarks(const Program& program, const TensorSet& inputs, const std::vector<pid_t>& threads,
                           const Job& job) {
  Marks marks;
  marks.begin = now();
  auto out = program.runMarked(
      inputs,
      [&](NodeId n) {
        marks.nodes.push_back(n);
        marks.mark(threads);
      },
      job);
  if (!out) return out.error();
  marks.mark(threads);
  marks.end = marks.starts.back();
  return marks;
}

/// The nodes one after the other, each until the next one begins.
TimelineLane hostLane(const Graph& g, const Marks& m) {
  TimelineLane lane{TimelineLane::Kind::Host, "host", {}};
  if (m.starts.front() > 0) lane.spans.push_back({"inputs", "", 0, m.starts.front()});
  for (size_t i = 0; i < m.nodes.size(); ++i)
    lane.spans.push_back(
        {operatorOf(g, m.nodes[i]), g.node(m.nodes[i]).name, m.starts[i], m.starts[i + 1] - m.starts[i]});
  return lane;
}

void addThreads(Timeline& out, const Graph& g, const Marks& m, size_t threads) {
  size_t shown = 1;
  for (size_t t = 0; t < threads; ++t) {
    TimelineLane lane{TimelineLane::Kind::Thread, "", {}};
    for (size_t i = 0; i < m.nodes.size(); ++i) {
      const double length = m.starts[i + 1] - m.starts[i];
      const double used = std::min(m.used[i + 1][t] - m.used[i][t], length);
      if (used > 0) lane.spans.push_back({operatorOf(g, m.nodes[i]), g.node(m.nodes[i]).name, m.starts[i], used});
    }
    if (lane.busy() < kLeastShare * out.microseconds) continue;
    lane.name = fmt::format("thread {}", ++shown);
    out.lanes.push_back(std::move(lane));
  }
}

Result<Timeline> onCpu(const Program& program, const Graph& g, const TensorSet& inputs, const Job& job) {
  std::vector<Marks> runs;
  std::vector<pid_t> threads;
  for (int i = 0; i < kWarmUp + kRuns; ++i) {
    if (job.cancelled()) return Error{ErrorKind::Cancelled, "stopped", {}};
    job.report("timeline", static_cast<size_t>(i), kWarmUp + kRuns - 1);
    if (i == kWarmUp) threads = otherThreads();
    auto run = runWithMarks(program, inputs, threads, job);
    if (!run) return run.error();
    if (i >= kWarmUp) runs.push_back(std::move(*run));
  }
  std::sort(runs.begin(), runs.end(), [](const Marks& a, const Marks& b) { return a.end < b.end; });
  const Marks& median = runs[runs.size() / 2];
  Timeline out;
  out.microseconds = median.end;
  out.lanes.push_back(hostLane(g, median));
  addThreads(out, g, median, threads.size());
  out.how = fmt::format(
      "the run of median length of {}; a thread is as long as it used a processor in the node, which it also does "
      "while it waits for work",
      kRuns);
  return out;
}

/// What PyTorch's profiler saw of a GPU.
struct Activity {
  std::string name;
  double start, microseconds;
  int64_t stream;
  uint64_t correlation;
};
struct Activities {
  std::vector<Activity> kernels, launches;
};

template <class Body>
Result<Activities> watched(const Body& body) {
  using namespace torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  using torch::profiler::impl::ProfilerConfig;
  using torch::profiler::impl::ProfilerState;
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  prepareProfiler(config, activities);
  enableProfiler(config, activities);
  const Status ran = body();
  const std::unique_ptr<ProfilerResult> result = disableProfiler();
  if (!ran) return ran.error();
  Activities out;
  for (const KinetoEvent& e : result->events()) {
    const Activity a{e.name(), static_cast<double>(e.startNs()) / 1e3, static_cast<double>(e.durationNs()) / 1e3,
                     e.deviceResourceId(), e.correlationId()};
    if (e.deviceType() != c10::DeviceType::CPU)
      out.kernels.push_back(a);
    else if (a.name.starts_with("cuda") || a.name.starts_with("cuLaunch") || a.name.starts_with("cuGraph"))
      out.launches.push_back(a);
  }
  const auto byStart = [](const Activity& a, const Activity& b) { return a.start < b.start; };
  std::sort(out.kernels.begin(), out.kernels.end(), byStart);
  std::sort(out.launches.begin(), out.launches.end(), byStart);
  return out;
}

/// `nodeOf`: of a kernel, in the order they run.
template <class NodeOf>
void addStreams(Timeline& out, const Activities& seen, double begin, const NodeOf& nodeOf) {
  TimelineLane launches{TimelineLane::Kind::Launches, "launches", {}};
  for (const Activity& a : seen.launches)
    if (a.start >= begin) launches.spans.push_back({a.name, "", a.start - begin, a.microseconds});
  out.lanes.push_back(std::move(launches));
  std::map<int64_t, TimelineLane> streams;
  for (const Activity& a : seen.kernels) {
    TimelineLane& lane = streams[a.stream];
    lane.kind = TimelineLane::Kind::Stream;
    lane.name = fmt::format("stream {}", a.stream);
    lane.spans.push_back({demangled(a.name), nodeOf(a), std::max(0.0, a.start - begin), a.microseconds});
  }
  for (auto& [stream, lane] : streams) out.lanes.push_back(std::move(lane));
}

Result<Timeline> captured(CudaRunner& runner, const Graph& g, const TensorSet& inputs, const c10::Device& device,
                          const Job& job) {
  const auto profile = runner.profile(inputs, kRuns, job);
  if (!profile) return profile.error();
  // The k-th kernel of a name belongs to the k-th node that calls it.
  std::map<std::string, std::deque<std::string>> callers;
  for (const CudaRunner::NodeProfile& n : profile->nodes)
    for (const CudaRunner::Launch& l : n.launches) callers[demangled(l.kernel)].push_back(g.node(n.node).name);
  double begin = 0, launched = 0, end = 0;
  auto seen = watched([&]() -> Status {
    begin = now();
    auto ran = runner.run(inputs, job);
    if (!ran) return ran.error();
    launched = now();
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    end = now();
    return done();
  });
  if (!seen) return seen.error();
  Timeline out;
  out.microseconds = end - begin;
  out.lanes.push_back({TimelineLane::Kind::Host,
                       "host",
                       {{"replays the CUDA graph", "", 0, launched - begin},
                        {"waits for the GPU", "", launched - begin, end - launched}}});
  addStreams(out, *seen, begin, [&](const Activity& a) {
    const auto found = callers.find(demangled(a.name));
    if (found == callers.end() || found->second.empty()) return std::string();
    std::string node = std::move(found->second.front());
    found->second.pop_front();
    return node;
  });
  out.how = "one replay of the CUDA graph, as PyTorch's profiler saw it; without the profiler it is faster";
  return out;
}

Result<Timeline> oneByOne(const Program& program, const Graph& g, const TensorSet& inputs, const c10::Device& device,
                          const std::string& why, const Job& job) {
  for (int i = 0; i < kWarmUp; ++i)
    if (auto ran = program.run(inputs, job); !ran) return ran.error();
  Marks marks;
  double end = 0;
  auto seen = watched([&]() -> Status {
    auto run = runWithMarks(program, inputs, {}, job);
    if (!run) return run.error();
    marks = std::move(*run);
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    end = now();
    return done();
  });
  if (!seen) return seen.error();
  Timeline out;
  out.microseconds = std::max(end - marks.begin, marks.end);
  out.lanes.push_back(hostLane(g, marks));
  out.lanes.back().spans.push_back({"waits for the GPU", "", marks.end, out.microseconds - marks.end});
  std::map<uint64_t, double> launchedAt;
  for (const Activity& a : seen->launches) launchedAt[a.correlation] = a.start - marks.begin;
  addStreams(out, *seen, marks.begin, [&](const Activity& a) {
    const auto launched = launchedAt.find(a.correlation);
    if (launched == launchedAt.end()) return std::string();
    const auto next = std::upper_bound(marks.starts.begin(), marks.starts.end(), launched->second);
    const auto place = next - marks.starts.begin() - 1;
    const bool isNode = place >= 0 && place < static_cast<std::ptrdiff_t>(marks.nodes.size());
    return isNode ? g.node(marks.nodes[static_cast<size_t>(place)]).name : std::string();
  });
  out.how = fmt::format(
      "one run operator by operator, as PyTorch's profiler saw it; without the profiler it is faster. It is no CUDA "
      "graph: {}",
      why);
  return out;
}

}  // namespace

double TimelineLane::busy() const {
  double sum = 0;
  for (const TimelineSpan& s : spans) sum += s.microseconds;
  return sum;
}

const char* laneKindName(TimelineLane::Kind kind) {
  constexpr const char* names[] = {"host", "launches", "thread", "stream"};
  return names[static_cast<size_t>(kind)];
}

Result<Timeline> timelineOf(const Program& program, const Graph& graph, const TensorSet& inputs, const Job& job) {
  const auto device = requireDevice(program.options().device);
  if (!device) return device.error();
  if (device->is_cpu()) return onCpu(program, graph, inputs, job);
  auto runner = CudaRunner::make(program);
  if (!runner) return oneByOne(program, graph, inputs, *device, runner.error().message, job);
  auto out = captured(*runner, graph, inputs, *device, job);
  if (out || out.error().kind == ErrorKind::Cancelled) return out;
  return oneByOne(program, graph, inputs, *device, out.error().message, job);
}

}  // namespace graft
