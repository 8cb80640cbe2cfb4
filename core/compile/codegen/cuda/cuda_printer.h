// CudaPrinter: one kernel as CUDA C++. Used by makeCudaCode. The kernel as a whole and the text's scopes are in
// cuda_printer.cpp; cuda_value_printer.cpp has values, cuda_pass_printer.cpp the loop of threads over elements, and
// cuda_team_printer.cpp, cuda_tile_printer.cpp and cuda_product_printer.cpp what their kinds of kernel add.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.h"
#include "core/compile/codegen/cuda/cuda_code.h"
#include "core/compile/codegen/cuda/cuda_plan.h"
#include "core/compile/codegen/cuda/lane_steps.h"

namespace graft::codegen {

class CudaPrinter {
 public:
  /// `slots`: the place of each buffer in the call's list of pointers; -1 for locals. `alignments`: of each buffer.
  CudaPrinter(Accesses&, CudaPlanner&, const CudaOptions&, const std::vector<int>& slots,
              const std::vector<int64_t>& alignments);

  struct Printed {
    std::string text;
    CudaKernel kernel;
    std::vector<int64_t> scratchBytes;  ///< of buffers behind all others, whose places are -1, -2, …
  };
  /// An error where locals need more shared memory than there is.
  Result<Printed> print(const CudaPlan&, const std::string& function);
  static std::string typeName(DType);

 private:
  struct Scope {
    std::string text, end;
    int depth = 0;
    std::unordered_map<ExprId, std::string> names;
    std::map<std::string, std::string> arrays;  ///< elements of a vector that were loaded together
  };
  /// The branch of a Select that is printed.
  struct Guard {
    ExprId condition;
    bool isThen;
    size_t scope;
  };
  struct Local {
    /// Own: in shared memory, where each thread has the elements that it writes and reads.
    enum class Place : uint8_t { Scalar, Registers, Own, Shared, Thread, Scratch } place = Place::Scalar;
    int64_t step = 1;  ///< between elements, where it is an array in memory
  };
  struct Pass {
    std::string name;              ///< of the variable that counts along the range; "" where none does
    const CudaRow* row = nullptr;  ///< null: of Threads, and of columns where no row is gone over
    RangeId range;                 ///< that the lanes go along
    int vector = 1;                ///< lanes
    int64_t chunks = 1;
    bool isUnrolled = true;
    int64_t first = 0;     ///< the chunk that the loop begins with
    bool isWhole = false;  ///< no chunk goes beyond the row
  };
  /// One pass of a team over a row: Reduces, and stores that need none of them; or stores alone.
  struct Step {
    std::vector<ExprId> reduces;
    std::vector<const loops::Store*> stores;
  };

  static constexpr int64_t kSmall = int64_t{1} << 31;  ///< what 32 bits count
  static bool isArray(const loops::Buffer& b) { return !b.sizes.empty(); }

  // The kernel
  std::string header(const std::string& function);
  Status placeLocals();
  Status printThreads();
  Status printTeam();
  bool isInParts() const { return options_.parts > 0; }
  void loadAll();
  void printTiles();
  void printProduct();
  std::string operandType(const CudaProduct::Operand&, int64_t rows) const;
  void printPlace(const CudaProduct::Operand&, const std::string& name, RangeId side, const std::string& sideName);
  /// Runs `print` for the chunks of a row: in one unrolled loop, or in one without conditions, and its end.
  void eachChunk(const Pass&, const std::function<void()>& print);
  void openPass(const Pass&);
  void closePass();
  void storePass(const std::vector<const loops::Store*>&);
  void reducePass(const std::vector<ExprId>& together, const std::vector<const loops::Store*>& stores);
  void rowStore(const loops::Store&);
  void openIteration();
  /// Loads of CudaPlan::sums.
  struct RowLoads {
    std::vector<ExprId> elements;   ///< of one row
    std::vector<ExprId> numbers;    ///< of one row, one for all its elements
    std::vector<ExprId> ofAllRows;  ///< the same for each row
  };
  RowLoads loadsOfRow();
  std::string rowArray(const std::string& stem, DType, const std::string& start);
  std::string firstOf(const std::string& rowArray) const;
  void keepStored(const loops::Store&);
  void fillRows(const std::vector<ExprId>& loads);
  std::vector<std::string> openIterationsOfBlock();
  void sumColumns(const std::vector<std::string>& names);
  Status joinColumnSums(const std::vector<std::string>& names);
  void barrier();
  /// Whether each thread has several columns, one in each lane.
  bool hasColumnLanes() const { return plan_->kind == CudaPlan::Kind::Columns && plan_->vector > 1; }
  void openColumns();
  /// What all threads of a block keep of the row, in bytes.
  int64_t bytesOfThreads(const CudaRow&, DType) const;
  int64_t extentOf(RangeId r) const { return *program_.expressions.findInteger(program_.range(r).extent); }
  int64_t mostSharedBytes() const { return options_.limits.sharedBytes; }
  /// Of that, what elements of rows may take: two blocks share a multiprocessor, where there are so many.
  int64_t keptBytes() const;
  bool isOwn(BufferId) const;
  /// The element of this lane of what a thread keeps for itself in shared memory.
  std::string ownElement(const std::string& name, DType);
  std::string joined(const loops::Expr& reduce, const std::string& type, const std::string& parts, int vector);
  const CudaRow& rowOf(RangeId) const;
  /// The Reduces of a team that a value needs, inner ones first, without those that have names.
  void reducesOf(ExprId, std::vector<ExprId>& order) const;
  std::vector<Step> stepsOfTeam() const;
  Step* findPass(std::vector<Step>&, ExprId value, RangeId) const;
  bool mayJoinReduces(const loops::Store&) const;
  void keepLoads(const std::vector<std::vector<ExprId>>& passes);
  void store(const loops::Store&, std::vector<std::string>& after);
  void scanStore(const loops::Store&);
  bool scansLongRows(const loops::Store&) const;
  void written(BufferId);
  int64_t sharedSlot(int64_t bytes);

  // Values
  std::string value(ExprId);
  std::string plainValue(ExprId);
  /// With its origin, where texts have marks. Not inside of an index.
  std::string withOrigin(ExprId, const std::string& text) const;
  std::string compute(ExprId);
  std::string loadText(ExprId);
  std::string vectorLoad(ExprId load);
  bool choosesLoads(const loops::Expr& select);
  std::string select(ExprId);
  std::string serialReduce(ExprId);
  std::string laneReduce(ExprId);
  bool isReducedInLanes(ExprId);
  std::string castText(const std::string& text, DType from, DType to);
  std::string constant(ExprId);
  std::string element(BufferId, ExprId offset);
  std::string localElement(BufferId, const std::vector<ExprId>& index);
  ExprId offsetOf(ExprId load);
  bool isNarrow(ExprId);
  bool isNotNegative(ExprId);
  std::string numberType(ExprId);
  size_t scopeOf(ExprId);
  void countUses(ExprId, int times = 1);
  bool hasGuardsInVector(std::string& condition, std::string& key);

  // Text
  void open(const std::vector<std::string>& heads, const std::string& end = "}");
  void close();
  void line(const std::string&);
  std::string newName(const std::string& stem) { return stem + std::to_string(names_++); }
  std::string slot(const Pass&) const;  ///< "[k][v]"
  std::string dimensions(const Pass&) const;
  Pass passOf(const CudaRow&) const;
  /// Runs `print` with the scopes above `target` put aside.
  void at(size_t target, const std::function<void()>& print);

  Accesses& accesses_;
  CudaPlanner& planner_;
  const loops::Program& program_;
  const CudaOptions& options_;
  const std::vector<int>& slots_;
  const std::vector<int64_t>& alignments_;

  const CudaPlan* plan_ = nullptr;
  std::vector<Scope> scopes_;
  std::vector<Guard> guards_;
  std::unordered_map<BufferId, Local> locals_;
  std::unordered_map<RangeId, std::pair<size_t, std::string>> ranges_;  ///< of loops in the lanes: scope and name
  std::unordered_map<ExprId, int> uses_;
  std::unordered_set<ExprId> chosen_;  ///< what one side of a Select loads for itself
  std::unordered_map<ExprId, ExprId> offsets_;
  std::unordered_map<ExprId, bool> narrow_;
  /// Loads that several passes need: the array that keeps them; and whether it is filled.
  std::unordered_map<ExprId, std::string> kept_;
  std::unordered_set<ExprId> filled_;
  std::unordered_set<ExprId> keptOwn_;  ///< those whose array lies in shared memory
  /// Elements of a row that are stored and that its columns' sums read, as this load, and the array that keeps them.
  struct StoredRow {
    ExprId load = {};
    std::string array = {};
  };
  std::unordered_map<BufferId, StoredRow> storedRows_;
  bool hasOwn_ = false;                            ///< `o` counts a thread's own elements there
  bool isJoined_ = false;                          ///< the blocks of a cluster have met once
  std::unordered_map<ExprId, std::string> tiles_;  ///< loads that come from squares in shared memory, by name
  int64_t tilePitch_ = 0;                          ///< elements from one row of a square to the next
  Pass pass_;
  std::optional<LaneSteps> steps_;
  size_t chunk_ = 0, lane_ = 0, localScope_ = 0;
  size_t iteration_ = 0;  ///< the scope of one iteration of a team
  int64_t sharedBytes_ = 0;
  int passScopes_ = 0;
  bool isIndex_ = false;  ///< what is printed now says where an element lies
  Printed printed_;
  int names_ = 0;
};

}  // namespace graft::codegen
