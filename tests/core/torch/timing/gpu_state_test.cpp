// The driver's libraries are stand-ins here (fake_drivers.cpp): what is asked for by name later is what has been
// loaded.
#include "core/torch/gpu_state.h"

#include <dlfcn.h>

#include "tests/support/catch.h"

using namespace graft;

static void loadStandIns() {
  for (const char* library : {FAKE_CUDA, FAKE_NVML}) REQUIRE(dlopen(library, RTLD_NOW | RTLD_LOCAL));
}

TEST_CASE("A GPU is looked up by where it sits: CUDA's first may be the machine's second") {
  loadStandIns();
  const auto used = gpuState(0);
  REQUIRE(used);
  CHECK(used->name == "Board B");
  CHECK(used->smClockMHz == 1980);
  CHECK(used->memoryClockMHz == 3201);
  CHECK(used->powerWatts == 312.4);
  CHECK_FALSE(gpuState(1));  // the process may not use it
  REQUIRE(gpuOfMachine(0));
  CHECK(gpuOfMachine(0)->name == "Board A");
  CHECK(gpuOfMachine(1)->name == "Board B");
  CHECK_FALSE(gpuOfMachine(2));
}

TEST_CASE("A GPU seen several times is told by ranges, one number where nothing changed") {
  CHECK(gpuStatesText({}).empty());
  CHECK(gpuStatesText({{"H", 1980, 3201, 312.4}}) == "H, SM clock 1980 MHz, 312 W");
  CHECK(gpuStatesText({{"H", 1980, 3201, 540}, {"H", 1755, 3201, 700.2}, {"H", 1980, 3201, 312}}) ==
        "H, SM clock 1755 to 1980 MHz, 312 to 700 W");
}
