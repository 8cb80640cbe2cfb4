#include "kernels/cuda/convolution/grouped_convolution.h"

#include <ATen/ops/all.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/isfinite.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/accumulate.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "kernels/cuda/convolution/cudnn_convolution.h"

namespace graft::cuda {
namespace {

enum class Way : uint8_t { ChannelsLast, Rows, Windows };
constexpr std::array<std::string_view, 3> wayNames{"channels_last", "rows", "windows"};

constexpr int64_t leastChannels = 8;  ///< of a group, for tensor cores
constexpr int64_t longFilter = 64;
constexpr int64_t mostWindowBytes = int64_t{1} << 28;

bool hasWindows(const ConvCall& c) {
  const std::vector<int64_t> out = c.resultSizes();
  const int64_t elements = out[0] * out[2] * out[3] * c.weight.size(2) * c.weight.size(3) * c.x.size(1);
  return elements * c.x.element_size() <= mostWindowBytes;
}

/// Each group's windows as a matrix of (places, elements of the window), times its filters. An element of a window is
/// (row, column, channel) of the filter, so that channels, which lie side by side, are read together.
at::Tensor byWindows(const ConvCall& c) {
  const std::vector<int64_t> out = c.resultSizes();
  const int64_t groups = c.groups, channels = c.x.size(1), each = channels / groups, filters = out[1] / groups;
  const int64_t rows = c.weight.size(2), columns = c.weight.size(3);
  at::Tensor image = c.x.permute({0, 2, 3, 1});
  if (c.padding[0] != 0 || c.padding[1] != 0)
    image = at::constant_pad_nd(image, {0, 0, c.padding[1], c.padding[1], c.padding[0], c.padding[0]});
  image = image.contiguous();
  const int64_t inRow = image.size(2) * channels;
  const at::Tensor windows = image.as_strided({groups, out[0], out[2], out[3], rows, columns, each},
                                              {each, image.size(1) * inRow, c.stride[0] * inRow, c.stride[1] * channels,
                                               c.dilation[0] * inRow, c.dilation[1] * channels, 1});
  const at::Tensor filter = c.weight.permute({0, 2, 3, 1}).reshape({groups, filters, rows * columns * each});
  const at::Tensor product =
      at::bmm(windows.reshape({groups, out[0] * out[2] * out[3], rows * columns * each}), filter.transpose(1, 2));
  return product.view({groups, out[0], out[2], out[3], filters})
      .permute({1, 2, 3, 0, 4})
      .reshape({out[0], out[2], out[3], out[1]})
      .permute({0, 3, 1, 2});
}

at::Tensor by(Way way, const ConvCall& c) {
  if (way == Way::Windows) return byWindows(c);
  const CudnnBenchmark benchmark;
  const at::MemoryFormat format = way == Way::Rows ? at::MemoryFormat::Contiguous : at::MemoryFormat::ChannelsLast;
  return convolve(c, c.x.contiguous(format), c.weight.contiguous(format));
}

std::string keyOf(const ConvCall& c) {
  return fmt::format("groups-{}-x{}-w{}-s{}-p{}-d{}-g{}-last{}{}-v{}", static_cast<int>(dtypeOf(c.op, c.x)),
                     fmt::join(c.x.sizes(), "x"), fmt::join(c.weight.sizes(), "x"), fmt::join(c.stride, "x"),
                     fmt::join(c.padding, "x"), fmt::join(c.dilation, "x"), c.groups,
                     static_cast<int>(c.x.is_contiguous(at::MemoryFormat::ChannelsLast)),
                     static_cast<int>(c.weight.is_contiguous(at::MemoryFormat::ChannelsLast)), cudnnVersion());
}

/// What PyTorch does without being asked: the layout of the image and the filter.
Way usual(const ConvCall& c) { return c.format == at::MemoryFormat::ChannelsLast ? Way::ChannelsLast : Way::Rows; }

/// Where nothing may be timed. On an H200, cuDNN was as fast as windows for filters of 31 and 49 places, and took 5 to
/// 14 times as long for 128.
Way guess(const ConvCall& c) {
  const bool isLong = c.weight.size(2) * c.weight.size(3) >= longFilter;
  return isLong && hasWindows(c) ? Way::Windows : usual(c);
}

std::optional<Way> wayNamed(std::string_view text) {
  for (size_t i = 0; i < wayNames.size(); ++i)
    if (text.substr(0, text.find(' ')) == wayNames[i]) return static_cast<Way>(i);
  return std::nullopt;
}

Way tune(const ConvCall& c, GemmCache& cache, const std::string& key) {
  const TuningBudget::Use use(tuningBudget());
  C10_CUDA_CHECK(cudaStreamSynchronize(c10::cuda::getCurrentCUDAStream()));
  const c10::cuda::CUDAStream stream = tuningStream();
  const c10::cuda::CUDAStreamGuard onStream(stream);
  Way best = usual(c);
  const at::Tensor expected = by(best, c);
  if (!at::isfinite(expected).all().item().toBool()) return best;  // nothing would agree with it: another call may tell
  const auto timed = [&](Way way, double limit) {
    return timeCalls([&](int) { return by(way, c).contiguous(c.format).defined(); }, stream, limit, 12);
  };
  const double before = timed(best, 1e30);
  double least = before;
  for (const Way way : {Way::ChannelsLast, Way::Rows, Way::Windows}) {
    if (way == usual(c) || (way == Way::Windows && !hasWindows(c))) continue;
    try {
      if (!agree(by(way, c), expected)) continue;  // the first call, in which cuDNN chooses
      const double took = timed(way, least);
      if (took < 0 || took >= least) continue;
      least = took;
      best = way;
    } catch (const c10::Error&) {  // no memory for it, or no kernel: the usual way works
    }
  }
  C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  cache.store(key, fmt::format("{} {:.2f}us usual={:.2f}us", wayNames[static_cast<size_t>(best)], least, before));
  return best;
}

Way choose(const ConvCall& c) {
  const c10::DeviceIndex device = c10::cuda::current_device();
  const std::string key = keyOf(c), here = fmt::format("{}:{}", static_cast<int>(device), key);
  static std::mutex mutex;
  static std::unordered_map<std::string, Way> chosen;
  const std::lock_guard lock(mutex);
  if (const auto at = chosen.find(here); at != chosen.end()) return at->second;
  GemmCache& cache = cacheOf(device);
  std::optional<Way> known;
  if (const auto line = cache.find(key)) known = wayNamed(*line);
  if (known == Way::Windows && !hasWindows(c)) known.reset();
  if (!known) {
    if (isCapturing() || !options().autotune || tuningBudget().isSpent(0.9)) return guess(c);
    known = tune(c, cache, key);
  }
  chosen.emplace(here, *known);
  return *known;
}

}  // namespace

bool isOfGroups(const ConvCall& c) {
  return c.groups > 1 && c.x.dim() == 4 && c.x.numel() > 0 && c.weight.numel() > 0 &&
         dtypeOf(c.op, c.x) != Dtype::kFloat && c.weight.size(1) >= leastChannels &&
         c.weight.size(0) / c.groups >= leastChannels && c10::multiply_integers(c.resultSizes()) > 0 &&
         at::globalContext().userEnabledCuDNN();
}

at::Tensor convolveGroups(const ConvCall& c) { return by(choose(c), c); }

}  // namespace graft::cuda
