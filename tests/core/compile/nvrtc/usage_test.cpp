// What NVIDIA's assembler says of kernels, and how many of their blocks a multiprocessor holds.
#include "core/compile/nvrtc/kernel_usage.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("the assembler's log names what each kernel takes") {
  const auto usage = kernelUsage(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'kernel_0' for 'sm_90a'\n"
      "ptxas info    : Function properties for kernel_0\n"
      "ptxas         .     320 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 320 bytes cumulative stack size, 1200 bytes smem\n"
      "ptxas info    : Compile time = 30.513 ms\n"
      "ptxas info    : Compiling entry function 'kernel_1' for 'sm_90a'\n"
      "ptxas info    : Function properties for kernel_1\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 168 registers\n");
  REQUIRE(usage.size() == 2);
  CHECK(usage[0].function == "kernel_0");
  CHECK(usage[0].registers == 32);
  CHECK(usage[0].sharedBytes == 1200);
  CHECK(usage[0].stackBytes == 320);
  CHECK(usage[0].spillBytes == 20);
  CHECK(usage[1].function == "kernel_1");
  CHECK(usage[1].registers == 168);
  CHECK(usage[1].spillBytes == 0);
  CHECK(kernelUsage("").empty());
  CHECK(kernelUsage("Used 12 registers, of nobody").empty());
}

TEST_CASE("occupancy follows the limit that is reached first") {
  const auto check = [](int capability, int threads, int registers, int64_t shared, int blocks, double share,
                        const char* limit) {
    const auto o = occupancy(capability, threads, registers, shared);
    REQUIRE(o);
    INFO(capability << " " << threads << " " << registers << " " << shared);
    CHECK(o->blocks == blocks);
    CHECK(o->share == share);
    CHECK(std::string(o->limit) == limit);
  };
  check(80, 256, 32, 0, 8, 1.0, "threads");
  check(80, 256, 64, 0, 4, 0.5, "registers");
  check(86, 256, 32, 0, 6, 1.0, "threads");
  check(86, 32, 16, 0, 16, 1.0 / 3, "blocks");
  check(90, 128, 255, 0, 2, 0.125, "registers");
  check(90, 1024, 32, 100 * 1024, 2, 1.0, "threads");
  check(90, 256, 32, 100 * 1024, 2, 0.25, "shared memory");
  // A warp of 33 registers takes 1280: 12 of them fit a quarter of the multiprocessor.
  check(90, 32, 33, 0, 32, 0.5, "blocks");
  check(90, 512, 33, 0, 3, 0.75, "registers");
  CHECK_FALSE(occupancy(52, 256, 32, 0));
  CHECK_FALSE(occupancy(90, 0, 32, 0));
}
