#include "core/torch/run/patient_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace graft {
namespace {

template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

PatientThreads::PatientThreads() {
  // What the compiler makes of `#pragma omp parallel num_threads(n)`.
  const auto parallel = loaded<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  const auto processors = loaded<int()>("omp_get_num_procs");
  const int used = at::get_num_threads();
  if (!parallel || !processors || used < 2) return;
  // The threads of a thread's first parallel region stay until that thread ends.
  const int more = std::max(2, processors() - used + 2);
  std::promise<void> ready;
  const std::future<void> isReady = ready.get_future();
  try {
    helper_ = std::thread([parallel, more, ready = std::move(ready), end = end_.get_future()]() mutable {
      parallel([](void*) {}, nullptr, static_cast<unsigned>(more), 0);
      ready.set_value();
      end.wait();
    });
  } catch (const std::system_error&) {  // no more threads: then they spin
    return;
  }
  isReady.wait();
}

PatientThreads::~PatientThreads() {
  if (!helper_.joinable()) return;
  end_.set_value();
  helper_.join();
}

}  // namespace graft
