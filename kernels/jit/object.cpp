#include "kernels/jit/object.h"

#include <llvm/ExecutionEngine/JITSymbol.h>
#include <llvm/ExecutionEngine/RTDyldMemoryManager.h>
#include <llvm/ExecutionEngine/RuntimeDyld.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/Memory.h>
#include <llvm/Support/MemoryBuffer.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "kernels/jit/symbols.h"

namespace graft::jit {
namespace {

// Code, constants and data in one mapping, so that each is within reach of the others' relative addresses. Written
// while the object is loaded; then code can be run and not written, and constants can only be read.
class OneMapping : public llvm::RuntimeDyld::MemoryManager {
 public:
  ~OneMapping() override {
    if (base_) munmap(base_, size_);
  }

  bool needsToReserveAllocationSpace() override { return true; }
#if LLVM_VERSION_MAJOR >= 16
  void reserveAllocationSpace(uintptr_t code, llvm::Align, uintptr_t constants, llvm::Align, uintptr_t data,
                              llvm::Align) override {
#else
  void reserveAllocationSpace(uintptr_t code, uint32_t, uintptr_t constants, uint32_t, uintptr_t data,
                              uint32_t) override {
#endif
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t sizes[] = {code, constants, data};
    for (size_t i = 0; i < 3; ++i) {
      areas_[i].begin = size_;
      areas_[i].next = size_;
      // Sections' alignments may differ from what was counted; a page more has room for all of them.
      size_ += (sizes[i] + page - 1) / page * page + page;
      areas_[i].end = size_;
    }
    void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = mapped == MAP_FAILED ? nullptr : static_cast<uint8_t*>(mapped);
  }

  uint8_t* allocateCodeSection(uintptr_t size, unsigned alignment, unsigned, llvm::StringRef) override {
    return allocate(areas_[0], size, alignment);
  }
  uint8_t* allocateDataSection(uintptr_t size, unsigned alignment, unsigned, llvm::StringRef, bool readOnly) override {
    return allocate(areas_[readOnly ? 1 : 2], size, alignment);
  }
  bool finalizeMemory(std::string* error) override {
    if (!base_ || isFull_) {
      if (error) *error = base_ ? "its sections are larger than its headers say" : "there is no memory for it";
      return true;
    }
    const bool failed =
        mprotect(base_ + areas_[0].begin, areas_[0].end - areas_[0].begin, PROT_READ | PROT_EXEC) != 0 ||
        mprotect(base_ + areas_[1].begin, areas_[1].end - areas_[1].begin, PROT_READ) != 0;
    if (failed && error) *error = "the system does not let this process make code executable";
    llvm::sys::Memory::InvalidateInstructionCache(base_ + areas_[0].begin, areas_[0].end - areas_[0].begin);
    return failed;
  }
  // The code throws nothing and is never unwound.
  void registerEHFrames(uint8_t*, uint64_t, size_t) override {}
  void deregisterEHFrames() override {}
  bool isFull() const { return isFull_ || !base_; }

 private:
  struct Area {
    size_t begin = 0, next = 0, end = 0;
  };

  uint8_t* allocate(Area& area, size_t size, size_t alignment) {
    if (alignment == 0) alignment = 16;
    const size_t at = (area.next + alignment - 1) / alignment * alignment;
    if (!base_ || at + size > area.end) {
      isFull_ = true;
      spare_.emplace_back(new uint8_t[size + alignment]);
      const uintptr_t raw = reinterpret_cast<uintptr_t>(spare_.back().get());
      return reinterpret_cast<uint8_t*>((raw + alignment - 1) / alignment * alignment);
    }
    area.next = at + size;
    return base_ + at;
  }

  uint8_t* base_ = nullptr;
  size_t size_ = 0;
  Area areas_[3];
  bool isFull_ = false;
  std::vector<std::unique_ptr<uint8_t[]>> spare_;  ///< where the object's headers lie: written, then refused
};

class Functions : public llvm::LegacyJITSymbolResolver {
 public:
  llvm::JITSymbol findSymbol(const std::string& name) override {
    if (void* address = findFunction(name))
      return {static_cast<llvm::JITTargetAddress>(reinterpret_cast<uintptr_t>(address)),
              llvm::JITSymbolFlags::Exported};
    if (missing_.empty()) missing_ = name;
    return nullptr;
  }
  llvm::JITSymbol findSymbolInLogicalDylib(const std::string&) override { return nullptr; }
  const std::string& missing() const { return missing_; }

 private:
  std::string missing_;
};

}  // namespace

struct LoadedObject::Parts {
  OneMapping memory;
  Functions functions;
  std::map<std::string, void*> symbols;
};

LoadedObject::LoadedObject(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LoadedObject::~LoadedObject() = default;

std::unique_ptr<LoadedObject> LoadedObject::load(const char* bytes, size_t size, std::string& error) {
  llvm::Expected<std::unique_ptr<llvm::object::ObjectFile>> file =
      llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(llvm::StringRef(bytes, size), "generated code"));
  if (!file) {
    error = llvm::toString(file.takeError());
    return nullptr;
  }
  auto parts = std::make_unique<Parts>();
  llvm::RuntimeDyld linker(parts->memory, parts->functions);
  linker.loadObject(**file);
  if (!linker.hasError() && !parts->memory.isFull()) linker.resolveRelocations();
  if (linker.hasError()) {
    error = linker.getErrorString().str();
    return nullptr;
  }
  if (!parts->functions.missing().empty()) {
    error = "it calls " + parts->functions.missing() + ", which is no function that generated code may call";
    return nullptr;
  }
  if (parts->memory.finalizeMemory(&error)) return nullptr;
  for (const auto& [name, symbol] : linker.getSymbolTable())
    parts->symbols.emplace(name.str(), reinterpret_cast<void*>(static_cast<uintptr_t>(symbol.getAddress())));
  return std::unique_ptr<LoadedObject>(new LoadedObject(std::move(parts)));
}

void* LoadedObject::find(const std::string& name) const {
  const auto at = parts_->symbols.find(name);
  return at == parts_->symbols.end() ? nullptr : at->second;
}

}  // namespace graft::jit
