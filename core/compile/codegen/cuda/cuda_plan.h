// How the nests of a program run on a GPU: which threads take which iterations, and what they keep where.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/compile/codegen/access.h"
#include "core/compile/codegen/cuda/cuda_product.h"

namespace graft::codegen {

inline constexpr int kWarp = 32;  ///< threads that run together

/// What the code of one iteration goes over together: the elements of a row, all of a store's or Reduce's ranges
/// flattened into one.
struct CudaRow {
  RangeId range;
  int64_t length = 0;
  int vector = 1;             ///< elements of a thread that follow each other
  int64_t chunks = 1;         ///< vectors of each thread
  bool isInRegisters = true;  ///< few enough: loops over chunks are unrolled, and values stay between them
};

/// A matrix product, rewritten: its operands are loads of three ranges at most, `index`, one of the result's sides and
/// `inner`.
struct CudaProduct {
  struct Operand {
    ExprId load;
    bool isInnerFast = true;  ///< memory runs along `inner`, not along the result's side
    int width = 1;            ///< elements that one access may take
  };
  ExprId reduce;
  Operand left, right;
  RangeId rows, columns, inner;  ///< stores step by ones along `columns`, where they do at all
  DType dtype = DType::Float16;
  ProductSize size;
  ProductTile tile;
};

/// A sum of columns, or another combination, that blocks of Rows have a part of each: of the rows that they run.
struct CudaColumnSum {
  loops::ReduceKind kind = loops::ReduceKind::Sum;
  ExprId value;        ///< of the row CudaPlan::index, and of its elements
  BufferId parts;      ///< one for each block and each element of a row
  ExprId offset = {};  ///< into `parts`: of CudaPlan::block, and of the row's elements
};

/// One kernel: a nest, rewritten, and the threads for it.
struct CudaPlan {
  enum class Kind : uint8_t {
    Threads,  ///< each thread runs iterations of its own, `vector` that follow each other, `chunks` times
    Rows,     ///< a team of neighbouring threads runs one iteration
    Columns,  ///< likewise, but neighbouring threads run neighbouring iterations, and a team is a column of the block
    Tiles,    ///< a block runs a square of iterations; what lies across is read through shared memory
    Product,  ///< a block multiplies a tile of a matrix product, and computes what is behind the sums
  };
  Kind kind = Kind::Threads;
  loops::Nest nest;        ///< one outer range, `index`; of teams: stores and the Reduces of an iteration have one each
  RangeId index;           ///< stands for all outer ranges
  int64_t iterations = 1;  ///< its extent
  int threads = 256;       ///< of a block
  int team = 1;            ///< threads of an iteration
  int cluster = 1;  ///< blocks of an iteration, which exchange what they sum up: above 1, the team's threads are theirs
  int perBlock = 1;                       ///< iterations of a block, or of a cluster of blocks
  int width = 32;                         ///< of Columns: threads side by side
  int vector = 1;                         ///< of Threads and Columns: iterations of a thread that follow each other
  int chunks = 1;                         ///< of Threads
  RangeId along, across;                  ///< of Tiles: the sides of a square; stores step by ones along the first
  int64_t tile = 0;                       ///< the length of a side
  std::vector<ExprId> transposed;         ///< of Tiles: loads that step by ones along `across`
  std::optional<CudaProduct> product;     ///< of Product
  std::map<int64_t, CudaRow> rows;        ///< of teams, by length
  std::unordered_set<ExprId> rowReduces;  ///< Reduces that a team computes together
  std::vector<CudaColumnSum> sums;  ///< of Rows that lie in registers: of the elements of one row, below each other
  RangeId block;                    ///< of sums: counts blocks
  int64_t rowsOfBlock = 0;          ///< of sums: a block's teams run so many iterations, in turns
  /// Iterations of a block, or of a cluster of blocks.
  int64_t iterationsOfBlock() const { return sums.empty() ? perBlock : rowsOfBlock; }
  /// Whether each team has an iteration whenever it asks for one.
  bool isAlwaysLive() const { return iterationsOfBlock() % perBlock == 0 && iterations % iterationsOfBlock() == 0; }
  std::string describe() const;
};

struct CudaPlanning {
  std::vector<int64_t> alignments;  ///< of each buffer
  ProductLimits limits;
  std::optional<ProductTile> tile;  ///< of products; nothing: the one that is predicted to be the fastest
  bool isInParts = false;           ///< iterations end somewhere else for each part
};

class CudaPlanner {
 public:
  /// Adds ranges and expressions to the program.
  CudaPlanner(Accesses&, loops::Program&, std::vector<Strides> strides, CudaPlanning);

  /// The kernels of a nest, in any order. Without teams, each iteration is one thread's.
  std::vector<CudaPlan> plan(const loops::Nest&, bool hasTeams = true);
  /// One kernel for all nests: each block runs rows of the first one, and combines on the way a part of each column of
  /// the others, so that what both read is read once. Nothing where they do not go over the same elements, or where
  /// rows are too long for registers.
  std::optional<CudaPlan> planWithColumnSums(const loops::Nest& rows, const std::vector<const loops::Nest*>& columns);
  /// Where an element lies: elements behind the buffer's first one.
  ExprId offset(BufferId, const std::vector<ExprId>& index);

 private:
  using Replacements = std::unordered_map<RangeId, ExprId>;
  struct Rewriting {
    Replacements to;
    std::unordered_map<uint64_t, ExprId> done;
  };
  int64_t known(ExprId extent) const;
  int64_t extentOf(const std::vector<RangeId>&) const;
  Replacements flatten(const std::vector<RangeId>&, RangeId flat);
  ExprId rewrite(ExprId, Rewriting&, bool isGuarded, CudaPlan* team);
  ExprId rewriteReduce(ExprId, Rewriting&, bool isGuarded, CudaPlan* team);
  loops::Store rewrite(const loops::Store&, Rewriting&, CudaPlan* team);
  bool hasReduce(ExprId);
  CudaRow& rowOf(CudaPlan&, int64_t length);
  void collect(ExprId, std::unordered_set<ExprId>& seen, std::vector<ExprId>& order) const;
  std::vector<ExprId> partsOf(const loops::Store&) const;
  void sortByStride(std::vector<RangeId>&, const std::vector<std::pair<BufferId, std::vector<ExprId>>>&);
  int64_t strideOf(BufferId, const std::vector<ExprId>& index, RangeId);
  bool liesSideBySide(BufferId, const std::vector<ExprId>& index, RangeId);

  /// Of stores that are split already; nothing where no load lies across.
  std::optional<CudaPlan> planTiles(const std::vector<const loops::Store*>&, const std::vector<RangeId>&);
  std::vector<CudaPlan> planThreads(const loops::Nest&, bool isSplit);
  bool readsWindows(const loops::Nest&);
  /// Nothing where the nest is no product of halves, or its operands lie in no matrices.
  std::optional<CudaPlan> planProduct(const loops::Nest&);
  CudaProduct::Operand operandOf(ExprId load, RangeId side, RangeId inner);
  std::optional<RangeId> columnsOf(const loops::Nest&);
  /// Columns along the range, or Rows.
  CudaPlan planTeam(const loops::Nest&, std::optional<RangeId> columns);
  bool mayBeParts(const loops::Nest& columns, const loops::Nest& rows) const;
  bool addColumnSum(CudaPlan&, const loops::Nest& columns, const loops::Store&);
  bool sharesLoads(const CudaPlan&);
  std::optional<ExprId> withStoredRows(const CudaPlan&, ExprId value);
  int64_t keptBytesOf(const CudaPlan&);
  bool isPeriodic(const CudaPlan&) const;
  bool hasArrays(const CudaPlan&) const;
  bool keepsOwnElements(const CudaPlan&) const;
  int64_t mostBlocks() const;
  int64_t blocksForRow(int64_t rows, int64_t length) const;
  void chooseColumns(CudaPlan&, bool mayShare);
  void chooseRows(CudaPlan&, bool mayShare);
  void setChunks(CudaPlan&) const;
  /// The lanes that let most accesses along the range be wide; those in `without` do not count.
  int vectorFor(const std::vector<loops::Store>&, RangeId, int64_t length, ExprId without = {});

  Accesses& accesses_;
  loops::Program& program_;
  std::vector<Strides> strides_;
  CudaPlanning planning_;
  std::unordered_map<ExprId, bool> hasReduce_;
  std::unordered_set<RangeId> outer_;  ///< of the nest that is rewritten
};

}  // namespace graft::codegen
