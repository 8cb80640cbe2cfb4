#include "kernels/generated/cuda/cuda_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/compile/fusion/product_split.h"
#include "core/torch/values/values.h"
#include "kernels/capture/cuda_graphs.h"
#include "kernels/cuda/tuning/tuning_budget.h"
#include "kernels/generated/aten_run.h"
#include "kernels/generated/code_cache.h"
#include "kernels/generated/cuda/cuda_compiled.h"
#include "kernels/generated/cuda/cuda_timing.h"

namespace graft::ops {
namespace {

/// Tiles that are compiled and timed: of more, the prediction rejects those that are slower.
constexpr size_t kMostTiles = 4;

/// A library's product, then the generated kernel behind it.
class SeparateProduct final : public CudaRun {
 public:
  static Result<std::shared_ptr<const CudaRun>> make(ProductSplit split, at::TensorList inputs, at::IntArrayRef sizes,
                                                     const Seen& seen) {
    std::shared_ptr<SeparateProduct> made(new SeparateProduct(std::move(split), sizes));
    const std::vector<at::Tensor> product = made->product_(made->take(made->split_.productInputs, inputs, {}), sizes);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < made->split_.results.size(); ++i)
      if (made->split_.results[i]) results.push_back(seen.results[i]);
    // A program from elsewhere may hold a product that nothing else in it reads.
    const std::vector<ValueId> given(made->split_.rest.inputs().begin(), made->split_.rest.inputs().end());
    const auto read = std::find_if(given.begin(), given.end(), [&](ValueId v) { return isProduct(*made, v); });
    if (read != given.end()) made->split_.rest.setType(*read, typeOfValue(product.front()));
    auto rest = CudaCompiled::make(made->split_.rest, made->take(made->split_.restInputs, inputs, product.front()),
                                   sizes, results);
    if (!rest) return rest.error();
    made->rest_ = std::move(*rest);
    return std::shared_ptr<const CudaRun>(std::move(made));
  }

  std::vector<at::Tensor> run(at::TensorList inputs) const override {
    const at::Tensor product = product_(take(split_.productInputs, inputs, {}), sizes_).front();
    const std::vector<at::Tensor> rest = rest_->run(take(split_.restInputs, inputs, product));
    std::vector<at::Tensor> out;
    for (const std::optional<size_t>& at : split_.results) out.push_back(at ? rest[*at] : product);
    return out;
  }

 private:
  SeparateProduct(ProductSplit split, at::IntArrayRef sizes)
      : split_(std::move(split)), sizes_(sizes.vec()), product_(split_.product) {}

  static bool isProduct(const SeparateProduct& s, ValueId input) {
    size_t tensor = 0;
    for (const ValueId v : s.split_.rest.inputs()) {
      if (!s.split_.rest.value(v).type.isTensor()) continue;
      const bool is = s.split_.restInputs[tensor++].isProduct;
      if (v == input) return is;
    }
    return false;
  }

  static std::vector<at::Tensor> take(const std::vector<ProductSplit::Source>& sources, at::TensorList inputs,
                                      const at::Tensor& product) {
    std::vector<at::Tensor> out;
    for (const ProductSplit::Source& s : sources) out.push_back(s.isProduct ? product : inputs[s.input]);
    return out;
  }

  ProductSplit split_;
  std::vector<int64_t> sizes_;
  AtenRun product_;  // refers to split_
  std::shared_ptr<const CudaCompiled> rest_;
};

/// A library's product, and nothing behind it.
class LibraryProduct final : public CudaRun {
 public:
  LibraryProduct(const Graph& graph, at::IntArrayRef sizes) : graph_(graph), sizes_(sizes.vec()), run_(graph_) {}
  std::vector<at::Tensor> run(at::TensorList inputs) const override { return run_(inputs, sizes_); }

 private:
  const Graph graph_;
  std::vector<int64_t> sizes_;
  AtenRun run_;  // refers to graph_
};

std::optional<size_t> numberIn(std::string_view text) {
  size_t n = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), n);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

constexpr std::string_view kSeparate = "separate";

/// What GRAFT_PRODUCT asks for: "library", or the place of a tile among those that fit; nothing: what is the fastest.
std::optional<std::string_view> wanted() {
  const char* text = std::getenv("GRAFT_PRODUCT");
  return text && *text ? std::optional<std::string_view>(text) : std::nullopt;
}

bool mayTime() {
  const char* text = std::getenv("GRAFT_AUTOTUNE");
  return !text || std::string_view(text) != "0";
}

/// While it lives, the calling thread tunes each product that it runs. A run that will be captured tunes a few at a
/// time, and a kernel must not win over an algorithm that was only guessed.
class TunesAll {
 public:
  TunesAll() : before_(cuda_ ? cuda_->setTunedProblems(nullptr) : nullptr) {}
  ~TunesAll() {
    if (cuda_) cuda_->setTunedProblems(before_);
  }
  TunesAll(const TunesAll&) = delete;
  TunesAll& operator=(const TunesAll&) = delete;

 private:
  const GraftCudaGraphs* cuda_ = graft_ops_cuda_graphs();
  const void* before_;
};

/// With GRAFT_PRODUCT_TIMES, to stderr.
void sayTimes(const codegen::ProductSize& size, const std::vector<codegen::ProductTile>& tiles,
              const std::vector<size_t>& places, const std::vector<double>& times) {
  if (!std::getenv("GRAFT_PRODUCT_TIMES")) return;
  std::string text = fmt::format("graft::generated: {} x {} x {} x {}: library {:.2f} us", size.batches, size.rows,
                                 size.columns, size.inner, times[0]);
  for (size_t i = 0; i < places.size(); ++i)
    text += fmt::format("; {} {:.2f} us", tiles[places[i]].describe(), times[i + 1]);
  std::fputs((text + "\n").c_str(), stderr);
}

}  // namespace

Result<std::shared_ptr<const CudaRun>> makeCudaProduct(const Graph& graph, at::TensorList inputs, at::IntArrayRef sizes,
                                                       const Seen& seen) {
  std::optional<ProductSplit> split = splitProduct(graph);
  const bool isAlone = !split && productOf(graph);
  if (!split && !isAlone) {
    // Several: nothing to compare with. Of matrix products, nobody has made a kernel.
    auto all = CudaCompiled::make(graph, inputs, sizes, seen.results);
    if (!all) return all.error();
    return std::shared_ptr<const CudaRun>(std::move(*all));
  }
  const auto separate = [&]() -> Result<std::shared_ptr<const CudaRun>> {
    if (isAlone) return std::shared_ptr<const CudaRun>(std::make_shared<LibraryProduct>(graph, sizes));
    return SeparateProduct::make(std::move(*split), inputs, sizes, seen);
  };
  const Result<CudaLoops> loops = CudaLoops::make(graph, inputs, sizes, seen.results);
  const bool isWindow = loops && isConvolution(graph.node(productOf(graph)).op->name);
  if (!loops || !(loops->isProduct() || isWindow)) return separate();
  const Result<codegen::CudaCode> first = loops->code();
  if (!first || first->kernels.empty()) return separate();  // of no elements there is no kernel
  // Windows have one way to run; the tile is ignored.
  std::vector<codegen::ProductTile> tiles = isWindow ? std::vector(1, codegen::ProductTile()) : loops->tiles(*first);
  if (wanted() == "library" || (!wanted() && !mayTime())) return separate();
  if (const auto place = wanted() ? numberIn(*wanted()) : std::nullopt) {
    auto one = loops->compileTiles({tiles[*place % tiles.size()]});
    return one.front() ? Result<std::shared_ptr<const CudaRun>>(one.front()) : separate();
  }
  // What was found before. The source has all that counts but the machine.
  const std::string key = "product 3\n" + loops->machine() + "\n" + first->source;
  const std::optional<std::string> known = codeCache().find(key);
  if (known == kSeparate) return separate();
  const auto found = std::find_if(tiles.begin(), tiles.end(), [&](const auto& t) { return t.describe() == known; });
  const bool isKnown = found != tiles.end();
  if (isKnown) tiles = {*found};
  // A later process goes on.
  if (!isKnown && cuda::tuningBudget().isSpent()) return separate();
  const cuda::TuningBudget::Use tuning(cuda::tuningBudget());
  const char* shown = std::getenv("GRAFT_PRODUCT_TIMES");
  if (tiles.size() > kMostTiles && (!shown || std::string_view(shown) != "all")) tiles.resize(kMostTiles);

  std::vector<std::shared_ptr<const CudaCompiled>> made = loops->compileTiles(tiles);
  if (isKnown && made.front()) return std::shared_ptr<const CudaRun>(made.front());
  const TunesAll tunesAll;
  Result<std::shared_ptr<const CudaRun>> apart = separate();
  if (!apart) {
    const auto some = std::find_if(made.begin(), made.end(), [](const auto& m) { return m != nullptr; });
    return some == made.end() ? apart : Result<std::shared_ptr<const CudaRun>>(*some);
  }
  std::vector<const CudaRun*> runs{apart->get()};
  std::vector<size_t> places;
  for (size_t i = 0; i < made.size(); ++i)
    if (made[i]) {
      runs.push_back(made[i].get());
      places.push_back(i);
    }
  if (places.empty()) return apart;
  const Result<std::vector<double>> times = timeRuns(runs, inputs);
  if (!times) return apart;
  sayTimes(first->kernels.front().product.value_or(codegen::ProductSize()), tiles, places, *times);
  const size_t best = static_cast<size_t>(std::min_element(times->begin(), times->end()) - times->begin());
  if (!isKnown) codeCache().store(key, best == 0 ? std::string(kSeparate) : tiles[places[best - 1]].describe());
  if (best == 0) return apart;
  return std::shared_ptr<const CudaRun>(made[places[best - 1]]);
}

}  // namespace graft::ops
