#include "kernels/jit/compiler.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#if LLVM_VERSION_MAJOR >= 17
#include <llvm/TargetParser/Host.h>
#else
#include <llvm/Support/Host.h>
#endif
#if LLVM_VERSION_MAJOR >= 14
#include <llvm/MC/TargetRegistry.h>
#endif

#include <memory>
#include <mutex>
#include <optional>

#include "kernels/jit/jit.h"

namespace graft::jit {
namespace {

#if LLVM_VERSION_MAJOR >= 18
constexpr auto kCodeLevel = llvm::CodeGenOptLevel::Default;
constexpr auto kObjectFile = llvm::CodeGenFileType::ObjectFile;
#else
constexpr auto kCodeLevel = llvm::CodeGenOpt::Default;
constexpr auto kObjectFile = llvm::CGFT_ObjectFile;
#endif

// Features are named one by one, since an LLVM that is older than the processor does not know the processor's name.
const char* featuresOf(int level) {
  switch (level) {
    case graftJitAvx512:
      return "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,+avx512f,+avx512bw,+avx512cd,+avx512dq,"
             "+avx512vl,-prefer-256-bit";
    case graftJitAvx2:
      return "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe";
    default:
      return "";
  }
}

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

std::unique_ptr<llvm::TargetMachine> makeMachine(int level, std::string& error) {
#if LLVM_VERSION_MAJOR >= 21
  const llvm::Triple triple(llvm::sys::getProcessTriple());
  const bool isX86 = triple.getArch() == llvm::Triple::x86_64;
#else
  const std::string triple = llvm::sys::getProcessTriple();
  const bool isX86 = triple.starts_with("x86_64");
#endif
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // where an instruction says `contract`, and for fmuladd
  options.NoTrapAfterNoreturn = true;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, isX86 ? "x86-64" : "generic", isX86 ? featuresOf(level) : "", options,
                                  llvm::Reloc::PIC_, llvm::CodeModel::Small, kCodeLevel));
}

// The emitter has already placed each instruction in the outermost loop where it can be. What is left is what is
// easiest after it: equal instructions, addresses, and variables in memory.
// From version 18 on, the pass of that name ends the process where one round leaves something to combine.
#if LLVM_VERSION_MAJOR >= 18
#define GRAFT_INSTCOMBINE "instcombine<no-verify-fixpoint>"
#else
#define GRAFT_INSTCOMBINE "instcombine"
#endif
constexpr const char* kPasses = "function(sroa,early-cse<memssa>," GRAFT_INSTCOMBINE
                                ",simplifycfg,gvn,loop-mssa(licm)," GRAFT_INSTCOMBINE ",adce,simplifycfg)";

// LLVM's pass that moves instructions of the processor out of loops: the emitter has moved out what is computed, and of
// constants there are more in a polynomial than registers. With AVX-512 an operand in memory costs nothing. The switch
// is the process's, read while passes are added.
bool addPasses(llvm::legacy::PassManager& passes, llvm::TargetMachine& machine, llvm::raw_pwrite_stream& out,
               int level) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& options = llvm::cl::getRegisteredOptions();
  if (const auto at = options.find("disable-machine-licm"); at != options.end())
    static_cast<llvm::cl::opt<bool>*>(at->second)->setValue(level == graftJitAvx512);
  return !machine.addPassesToEmitFile(passes, out, nullptr, kObjectFile);
}

bool optimise(llvm::Module& module, llvm::TargetMachine& machine, std::string& error) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager passes;
  if (auto failed = builder.parsePassPipeline(passes, kPasses)) {
    error = llvm::toString(std::move(failed));
    return false;
  }
  passes.run(module, modules);
  return true;
}

}  // namespace

const char* llvmVersion() { return LLVM_VERSION_STRING; }

int hostLevel() {
#if LLVM_VERSION_MAJOR >= 19
  const llvm::StringMap<bool> found = llvm::sys::getHostCPUFeatures();
#else
  llvm::StringMap<bool> found;
  llvm::sys::getHostCPUFeatures(found);
#endif
  const auto hasAll = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!found.lookup(name)) return false;
    return true;
  };
  if (!hasAll({"sse4.2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"})) return graftJitBase;
  return hasAll({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? graftJitAvx512 : graftJitAvx2;
}

bool compileObject(const std::string& ir, int level, std::vector<char>& object, std::string& error) {
  initialise();
  llvm::LLVMContext context;
#if LLVM_VERSION_MAJOR < 15
  context.enableOpaquePointers();
#endif
  llvm::SMDiagnostic diagnostic;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(ir, diagnostic, context);
  if (!module) {
    llvm::raw_string_ostream out(error);
    diagnostic.print("the generated code", out, false);
    out.flush();
    return false;
  }
  const std::unique_ptr<llvm::TargetMachine> machine = makeMachine(level, error);
  if (!machine) return false;
#if LLVM_VERSION_MAJOR >= 21
  module->setTargetTriple(machine->getTargetTriple());
#else
  module->setTargetTriple(machine->getTargetTriple().str());
#endif
  module->setDataLayout(machine->createDataLayout());
  {
    llvm::raw_string_ostream out(error);
    if (llvm::verifyModule(*module, &out)) {
      out.flush();
      return false;
    }
  }
  if (!optimise(*module, *machine, error)) return false;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager emission;
  if (!addPasses(emission, *machine, out, level)) {
    error = "LLVM cannot make object files for this machine";
    return false;
  }
  emission.run(*module);
  object.assign(bytes.begin(), bytes.end());
  return true;
}

}  // namespace graft::jit
