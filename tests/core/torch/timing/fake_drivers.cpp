// The few functions of CUDA's driver and of NVML that core/torch/timing/gpu_state.cpp calls, of a machine with two GPUs
// of which CUDA_VISIBLE_DEVICES leaves the second.
#include <algorithm>
#include <cstring>

namespace {

struct Board {
  const char *bus, *name;
  unsigned smClock, memoryClock, milliwatts;
};
Board boards[] = {{"0000:0a:00.0", "Board A", 100, 10, 50000}, {"0000:1b:00.0", "Board B", 1980, 3201, 312400}};

int put(const char* text, char* out, size_t size) {
  if (std::strlen(text) >= size) return 1;
  std::copy_n(text, std::strlen(text) + 1, out);
  return 0;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDeviceGet(int* device, int ordinal) {
  *device = 7;  // no index of anything
  return ordinal == 0 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* out, int size, int device) {
  return device == 7 ? put(boards[1].bus, out, static_cast<size_t>(size)) : 101;
}

int nvmlInit_v2() { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= 2) return 2;
  *handle = &boards[index];
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
  for (Board& b : boards)
    if (std::strcmp(b.bus, bus) == 0) return *handle = &b, 0;
  return 6;
}
int nvmlDeviceGetName(void* handle, char* out, unsigned size) {
  return put(static_cast<Board*>(handle)->name, out, size);
}
int nvmlDeviceGetClockInfo(void* handle, int which, unsigned* mhz) {
  *mhz = which == 1 ? static_cast<Board*>(handle)->smClock : static_cast<Board*>(handle)->memoryClock;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = static_cast<Board*>(handle)->milliwatts;
  return 0;
}
}
