#include "core/compile/codegen/cpp_compile.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/child.h"
#include "core/base/temporary_folder.h"
#include "core/compile/codegen/cpp/cpp_printer.h"

namespace graft::codegen {
namespace {

constexpr double mostSeconds = 120;
constexpr size_t mostLines = 8;

std::string compilerName() {
  const char* given = std::getenv("CXX");
  return given && *given ? given : "c++";
}

/// "ccache g++" is two words.
std::vector<std::string> command(bool withThreads) {
  std::vector<std::string> words;
  std::istringstream name(compilerName());
  for (std::string word; name >> word;) words.push_back(word);
  for (const char* flag : {"-std=c++20", "-O3", "-march=native", "-fwrapv", "-fopenmp-simd", "-w", "-shared", "-fPIC"})
    words.emplace_back(flag);
  if (withThreads) words.emplace_back("-fopenmp");
  return words;
}

std::string firstLines(const std::string& text) {
  std::istringstream in(text);
  std::string out, line;
  for (size_t i = 0; i < mostLines && std::getline(in, line); ++i) out += "\n  " + line;
  return out;
}

std::string withoutFolder(std::string text, const std::string& folder) {
  for (size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at))
    text.erase(at, folder.size());
  return text;
}

Result<std::string> compiled(const std::string& text, bool withThreads) {
  auto folder = TemporaryFolder::inSystem();
  if (!folder) return folder.error();
  const std::string source = folder->file("kernel.cpp"), object = folder->file("kernel.so");
  if (Status s = writeFileAtomically(source, text); !s) return s.error();
  std::vector<std::string> words = command(withThreads);
  words.insert(words.end(), {"-o", object, source});
  auto child = Child::start(words);
  if (!child)
    return badInput("a hand-edited kernel needs a C++ compiler, and " + child.error().message +
                    "; install one, or name it in CXX");
  child->setLimit(mostSeconds);
  auto end = child->end({});
  if (!end) return end.error();
  if (end->code == 127)  // env, ccache
    return badInput("a hand-edited kernel needs a C++ compiler: " + firstLines(end->errors));
  if (end->code != 0)
    return badInput(words.front() + " refuses the kernel's C++:" +
                    firstLines(withoutFolder(end->errors, source.substr(0, source.size() - 10))));
  std::ifstream in(object, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (!in) return badInput("the compiled kernel cannot be read");
  return std::move(bytes).str();
}

}  // namespace

std::string callableCpp(const loops::Program& program, const std::string& source) {
  std::string arguments;
  size_t slot = 0;
  const auto add = [&](const std::string& a) { arguments += (arguments.empty() ? "" : ", ") + a; };
  for (const loops::BufferId b : program.inputs())
    add("static_cast<const " + CppPrinter::typeName(program.buffer(b).dtype) + "*>(b[" + std::to_string(slot++) + "])");
  for (const loops::BufferId b : program.outputs())
    add("static_cast<" + CppPrinter::typeName(program.buffer(b).dtype) + "*>(b[" + std::to_string(slot++) + "])");
  for (size_t i = 0; i < program.sizes.size(); ++i) add("s[" + std::to_string(i) + "]");
  return source +
         "\n#ifdef _OPENMP\n#include <omp.h>\n#endif\n"
         "extern \"C\" int " +
         kCppFunction +
         "(void* const* b, [[maybe_unused]] const int64_t* s, [[maybe_unused]] int threads) {\n"
         "#ifdef _OPENMP\n  omp_set_num_threads(threads);\n#endif\n"
         "  return run(" +
         arguments + ");\n}\n";
}

std::string cppCompiler() {
  std::string out;
  for (const std::string& word : command(true)) out += word + " ";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("flags")) return out + line;
  return out;
}

Result<std::string> compileCpp(const std::string& text) {
  Result<std::string> object = compiled(text, true);
  if (object) return object;
  Result<std::string> withoutThreads = compiled(text, false);  // there may be no OpenMP
  return withoutThreads ? withoutThreads : object;
}

}  // namespace graft::codegen
