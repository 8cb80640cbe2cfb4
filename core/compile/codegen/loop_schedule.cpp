#include "core/compile/codegen/loop_schedule.h"

#include <algorithm>
#include <charconv>

#include "core/compile/codegen/loop_plan.h"
#include "core/compile/codegen/placement.h"
#include "core/compile/codegen/prepare.h"

namespace graft::codegen {
namespace {

constexpr int64_t mostBlock = int64_t{1} << 30;
constexpr int mostThreads = 4096;

std::vector<std::string_view> wordsOf(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

bool isNumber(std::string_view word, int64_t least, int64_t most, int64_t& number) {
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  return read.ec == std::errc() && read.ptr == word.data() + word.size() && number >= least && number <= most;
}

/// Whether the words say a choice, which goes into `s`.
bool readChoice(const std::vector<std::string_view>& words, LoopSchedule& s) {
  if (words.size() < 2) return false;
  const std::string_view key = words.front();
  if (key == "order") {
    s.order.assign(words.begin() + 1, words.end());
    return true;
  }
  if (words.size() > 2) return false;
  int64_t number = 0;
  if (key == "lanes") {
    s.lanes = words[1];
  } else if (key == "transpose") {
    s.transposes = words[1] == "yes";
    return s.transposes || words[1] == "no";
  } else if (key == "registers") {
    if (!isNumber(words[1], 1, 4, number) || number == 3) return false;
    s.registers = static_cast<int>(number);
  } else if (key == "block") {
    return isNumber(words[1], 1, mostBlock, s.block);
  } else if (key == "threads") {
    if (!isNumber(words[1], 1, mostThreads, number)) return false;
    s.threads = static_cast<int>(number);
  } else {
    return false;
  }
  return true;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

std::string printSchedule(const LoopSchedule& s) {
  std::string out;
  if (!s.lanes.empty()) out += "lanes " + s.lanes + "\n";
  if (!s.order.empty()) {
    out += "order";
    for (const std::string& range : s.order) out += " " + range;
    out += "\n";
  }
  if (s.registers > 0) out += "registers " + std::to_string(s.registers) + "\n";
  if (s.block > 0) out += "block " + std::to_string(s.block) + "\n";
  if (s.threads > 0) out += "threads " + std::to_string(s.threads) + "\n";
  if (!s.transposes) out += "transpose no\n";
  return out;
}

Result<LoopSchedule> parseSchedule(std::string_view text) {
  LoopSchedule s;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.empty() && !readChoice(wordsOf(line), s))
      return badInput("a schedule has no line \"" + std::string(line.substr(0, 80)) +
                      "\"; it has lanes RANGE, order RANGE …, registers 1|2|4, block N, threads N and transpose no");
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return s;
}

Status checkSchedule(const loops::Program& given, const LoopSchedule& s) {
  if (s.registers < 0 || s.registers > 4 || s.registers == 3) return badInput("a vector takes 1, 2 or 4 registers");
  if (s.block < 0 || s.block > mostBlock) return badInput("block is a number of elements, up to 2^30");
  if (s.threads < 0 || s.threads > mostThreads) return badInput("threads is a number up to 4096");
  loops::Program program = given;
  Placement placement = placeBuffers(program, {});
  Accesses accesses(program, std::move(placement.strides));
  NestRewriter rewriter(accesses, program);
  LoopPlanner planner(accesses, lanesOf(CpuLevel::Avx2), s);
  std::vector<std::string> outer;
  bool hasOuterLanes = false, transposes = false;
  for (const loops::Nest& given : std::vector<loops::Nest>(program.nests)) {
    const loops::Nest nest = rewriter.prepare(given);
    for (const RangeId r : nest.outer)
      if (std::find(outer.begin(), outer.end(), program.range(r).name) == outer.end())
        outer.push_back(program.range(r).name);
    const NestPlan plan = planner.plan(nest);
    hasOuterLanes = hasOuterLanes || plan.vector;
    transposes = transposes || LoopPlanner(accesses, lanesOf(CpuLevel::Avx2)).plan(nest).tile.has_value();
  }
  const auto check = [&](const std::string& name) -> Status {
    if (std::find(outer.begin(), outer.end(), name) != outer.end()) return done();
    return badInput("the kernel has no outer range " + name + "; it has " +
                    (outer.empty() ? std::string("none") : listed(outer)));
  };
  if (!s.lanes.empty() && s.lanes != LoopSchedule::inner)
    if (Status known = check(s.lanes); !known) return known;
  for (const std::string& name : s.order)
    if (Status known = check(name); !known) return known;
  if (s.block > 0 && !hasOuterLanes)
    return badInput("block is of lanes along an outer range; here each store has its lanes along a range of its own");
  if (!s.transposes && !transposes) return badInput("the kernel transposes no loads");
  return done();
}

}  // namespace graft::codegen
