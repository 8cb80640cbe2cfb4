#include "kernels/cuda/graphs/blas_workspaces.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/Allocator.h>
#include <c10/util/UniqueVoidPtr.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace graft::cuda {
namespace {

using Key = std::tuple<void*, void*>;  // a handle and a stream

struct Kept {
  std::mutex mutex;
  std::map<Key, at::DataPtr> current;
  std::vector<at::DataPtr> earlier;  ///< that PyTorch replaced, and that graphs may use
};

/// What PyTorch gets in place of the workspace that it had: it may forget it at any time.
at::DataPtr borrowed(const at::DataPtr& own) {
  return {own.get(), own.get(), &c10::detail::deleteNothing, own.device()};
}

void keep(at::cuda::WorkspaceMapWithMutex& pytorch, Kept& kept, const std::vector<cudaStream_t>& streams) {
  const auto isOurs = [&](const Key& key) {
    return std::find(streams.begin(), streams.end(), static_cast<cudaStream_t>(std::get<1>(key))) != streams.end();
  };
  const std::scoped_lock lock(pytorch.mutex, kept.mutex);
  for (auto& [key, workspace] : pytorch.map) {
    if (!isOurs(key) || workspace.get_deleter() == &c10::detail::deleteNothing) continue;
    at::DataPtr& place = kept.current[key];
    if (place) kept.earlier.push_back(std::move(place));
    place = std::exchange(workspace, borrowed(workspace));
  }
  for (const auto& [key, own] : kept.current)
    if (isOurs(key)) pytorch.map.try_emplace(key, borrowed(own));
}

}  // namespace

void keepBlasWorkspaces(const std::vector<cudaStream_t>& streams) {
  // Never destroyed: streams outlive all that use them.
  static auto* blas = new Kept;
  static auto* blasLt = new Kept;
  keep(at::cuda::cublas_handle_stream_to_workspace(), *blas, streams);
  keep(at::cuda::cublaslt_handle_stream_to_workspace(), *blasLt, streams);
}

}  // namespace graft::cuda
