#include "app/console/timing_text.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

using namespace graft;

static PairedTiming timing(std::vector<double> a, std::vector<double> b, double ratio) {
  PairedTiming t;
  t.a.samplesMs = std::move(a);
  t.b.samplesMs = std::move(b);
  t.ratio = ratio;
  t.protocol = "cpu";
  return t;
}

static FlushedTiming flushed(const PairedTiming& t) {
  return {t.a, t.b, t.ratio, static_cast<int>(t.a.samplesMs.size())};
}

static bool says(const PairedTiming& t, const std::string& what) {
  return cli::timingText(t, "original", "rewritten").find(what) != std::string::npos;
}

TEST_CASE("A difference is claimed where the runs tell it") {
  const PairedTiming faster = timing({2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, {1, 1, 1, 1, 1, 1}, 2.0);
  CHECK(says(faster, "2.00 times faster; cpu"));
  CHECK(says(timing(faster.b.samplesMs, faster.a.samplesMs, 0.5), "2.00 times slower; cpu"));
}

TEST_CASE("A busy machine makes equal models look different, and nothing is claimed of them") {
  const PairedTiming noise = timing({10, 90, 30, 12, 80}, {11, 30, 10, 60, 26}, 3.0);
  CHECK(says(noise,
             "no difference that these runs can tell (0.20 to 3.08 times as fast); a longer --seconds tells more"));
  CHECK_FALSE(says(noise, "faster"));
}

TEST_CASE("Of many pairs a few that are far off do not hide a small difference") {
  std::vector<double> a, b;
  for (int i = 0; i < 100; ++i) {
    a.push_back(i % 10 == 0 ? 1.0 : 1.05);
    b.push_back(i % 10 == 0 ? 3.0 : 1.0);
  }
  CHECK(says(timing(a, b, 1.05), "1.05 times faster"));
}

TEST_CASE("A machine that is busy with other work is said to be; our own threads are no news") {
  CHECK(cli::busyText(2.2, 2).empty());
  CHECK(cli::busyText(5.25, 2) == "the machine is busy with 5.2 processes on 2 cores");
}

TEST_CASE("What a flushed cache costs is told as what a warm one does") {
  PairedTiming t = timing({2.0, 2.1, 1.9, 2.0, 2.2, 2.0}, {1, 1, 1, 1, 1, 1}, 2.0);
  CHECK_FALSE(says(t, "flushed"));
  PairedTiming slow = timing({3.0, 3.0, 3.3, 3.0, 2.4}, {1, 1, 1, 1, 1}, 3.0);
  slow.a.medianMs = 3;
  slow.a.p10Ms = 2.64;
  slow.a.p90Ms = 3.18;
  t.flushed = flushed(slow);
  CHECK(says(t, "2.00 times faster; cpu"));
  CHECK(says(t, "\nwith a flushed L2 cache\noriginal   3.000 ms"));
  CHECK(says(t, "original   3.000 ms (p10 2.640, p90 3.180)\n"));
  CHECK(says(t, "3.00 times faster; 5 alternating pairs\n"));
}
