#include "kernels/cuda/graphs/unused_memory.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <shared_mutex>
#include <tuple>

namespace graft::cuda {

void emptyAllocatorCache() {
  try {
    c10::cuda::CUDACachingAllocator::emptyCache();
  } catch (const std::exception&) {
    // Another thread is capturing. The cache is emptied another time.
  }
}

void freeBlasWorkspaces() {
  if (c10::cuda::getCurrentCUDAStream() != c10::cuda::getDefaultCUDAStream()) return;
  const auto release = [](at::cuda::WorkspaceMapWithMutex& workspaces, void* handle) {
    const std::scoped_lock lock(workspaces.mutex);
    workspaces.map.erase({handle, nullptr});
  };
  // Asking for a handle would allocate a workspace where there is none.
  const auto any = [](at::cuda::WorkspaceMapWithMutex& workspaces) {
    const std::shared_lock lock(workspaces.mutex);
    return std::any_of(workspaces.map.begin(), workspaces.map.end(),
                       [](const auto& each) { return std::get<1>(each.first) == nullptr; });
  };
  auto& blas = at::cuda::cublas_handle_stream_to_workspace();
  auto& blasLt = at::cuda::cublaslt_handle_stream_to_workspace();
  if (!any(blas) && !any(blasLt)) return;
  release(blasLt, at::cuda::getCurrentCUDABlasLtHandle());
  release(blas, at::cuda::getCurrentCUDABlasHandle());
}

}  // namespace graft::cuda
