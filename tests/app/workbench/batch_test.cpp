#include "app/workbench/batch/batch.h"

#include <filesystem>
#include <fstream>

#include "app/workbench/batch/state.h"
#include "tests/support/catch.h"

using namespace graft;
using namespace graft::workbench;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("graft-batch-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

std::string contentOf(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

BatchResult result(const Folder& f, BatchOutcome outcome) {
  BatchTask task{f.file("m.pt", "model"), f.file("out.pt", "out"), {"apply", "m.pt"}, {}};
  task.files = {task.model};
  BatchResult out;
  out.task = task;
  out.outcome = outcome;
  out.report = R"({"schema":1,"models":[]})";
  return out;
}

}  // namespace

TEST_CASE("A state tells what is done, and nothing of another version or another file") {
  const Folder f;
  const std::string path = (f.path / "state.jsonl").string();
  const BatchResult done = result(f, BatchOutcome::Done);
  {
    auto state = BatchState::open(path, "1");
    REQUIRE(state);
    CHECK_FALSE(state->doneBefore(done.task));
    REQUIRE(state->add(done));
    const auto second = BatchState::open(path, "1");
    REQUIRE_FALSE(second);
    CHECK(second.error().message.find("another batch") != std::string::npos);
  }
  CHECK_FALSE(BatchState::open(path, "2")->doneBefore(done.task));
  const auto again = BatchState::open(path, "1")->doneBefore(done.task);
  REQUIRE(again);
  CHECK(again->isFromState);
  CHECK(again->report == R"({"models":[],"schema":1})");
  f.file("m.pt", "another model");
  CHECK_FALSE(BatchState::open(path, "1")->doneBefore(done.task));
}

TEST_CASE("A model that failed is tried again") {
  const Folder f;
  const std::string path = (f.path / "state.jsonl").string();
  const BatchResult failed = result(f, BatchOutcome::Failed), unchanged = result(f, BatchOutcome::Unchanged);
  REQUIRE(BatchState::open(path, "1")->add(unchanged));
  CHECK(BatchState::open(path, "1")->doneBefore(unchanged.task));
  REQUIRE(BatchState::open(path, "1")->add(failed));
  CHECK_FALSE(BatchState::open(path, "1")->doneBefore(failed.task));
}

TEST_CASE("A line that was cut off at any place is as if it were not there") {
  const Folder f;
  const std::string path = (f.path / "state.jsonl").string();
  const BatchResult done = result(f, BatchOutcome::Done);
  REQUIRE(BatchState::open(path, "1")->add(done));
  const std::string line = contentOf(path);
  for (size_t length = 3; length < line.size(); ++length) {
    f.file("state.jsonl", line + line.substr(0, length));
    REQUIRE(BatchState::open(path, "1"));
    REQUIRE(contentOf(path) == line);
    f.file("state.jsonl", line.substr(0, length));
    REQUIRE(BatchState::open(path, "1")->add(done));
    REQUIRE(contentOf(path) == line);
  }
}

TEST_CASE("A file that is no state stays as it is") {
  const Folder f;
  for (const std::string& text : {"my notes", "{\"a\": 1}\n", "1\n2\n", "{\"schema\": \"x\", \"words\": []}\n"}) {
    const std::string path = f.file("notes", text);
    CHECK_FALSE(BatchState::open(path, "1"));
    CHECK(contentOf(path) == text);
  }
}

TEST_CASE("Processes that end, fail, crash and hang each have their outcome") {
  const Folder f;
  const std::string program = f.file("program", R"(#!/bin/sh
case $1 in
  well) echo '{"models": []}';;
  unchanged) exit 7;;
  fails) echo 'graft: first' >&2; echo 'graft: it is broken' >&2; exit 3;;
  crashes) kill -SEGV $$;;
  hangs) sleep 60;;
esac
)");
  fs::permissions(program, fs::perms::owner_all);
  BatchRequest request{program, "1", {}, 3, "", 1};
  for (const char* name : {"well", "unchanged", "fails", "crashes", "hangs"})
    request.tasks.push_back({name, "", {name}, {}});
  size_t heard = 0;
  const auto report = runBatch(request, [&](const BatchResult&) { ++heard; }, {});
  REQUIRE(report);
  CHECK(heard == 5);
  const auto& r = report->results;
  CHECK((r[0].outcome == BatchOutcome::Done && r[0].report == "{\"models\": []}\n"));
  CHECK(r[1].outcome == BatchOutcome::Unchanged);
  CHECK((r[2].outcome == BatchOutcome::Failed && r[2].exitCode == 3 && r[2].error == "it is broken"));
  CHECK((r[3].exitCode == -1 && r[3].error.find("SIGSEGV") != std::string::npos));
  CHECK((r[4].outcome == BatchOutcome::Failed && r[4].error.find("--limit") != std::string::npos));
}
