#include "kernels/jit/jit.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/jit/compiler.h"
#include "kernels/jit/object.h"

struct GraftJitModule {
  std::unique_ptr<graft::jit::LoadedObject> object;
};

namespace {

using namespace graft::jit;

bool give(GraftJitBytes* bytes, std::string_view content) {
  bytes->data = static_cast<unsigned char*>(std::malloc(content.size() + 1));
  bytes->size = bytes->data ? content.size() : 0;
  if (!bytes->data) return false;
  std::memcpy(bytes->data, content.data(), content.size());
  bytes->data[content.size()] = 0;
  return true;
}

int compile(const char* ir, size_t size, int level, GraftJitBytes* object, GraftJitBytes* error) {
  *object = {};
  *error = {};
  try {
    std::vector<char> bytes;
    std::string message;
    if (level > hostLevel()) {
      message = "this machine has not the instructions that the code would use";
    } else if (compileObject(std::string(ir, size), level, bytes, message)) {
      if (give(object, {bytes.data(), bytes.size()})) return 0;
      message = "there is no memory for the machine code";
    }
    give(error, message);
  } catch (const std::exception& e) {
    give(error, e.what());
  }
  return 1;
}

GraftJitModule* load(const unsigned char* object, size_t size, GraftJitBytes* error) {
  *error = {};
  try {
    std::string message;
    if (auto loaded = LoadedObject::load(reinterpret_cast<const char*>(object), size, message))
      return new GraftJitModule{std::move(loaded)};
    give(error, message);
  } catch (const std::exception& e) {
    give(error, e.what());
  }
  return nullptr;
}

void* find(const GraftJitModule* module, const char* name) { return module->object->find(name); }
void unload(GraftJitModule* module) { delete module; }

void release(GraftJitBytes* bytes) {
  std::free(bytes->data);
  *bytes = {};
}

const std::string& compilerName() {
  static const std::string name = std::string("LLVM ") + llvmVersion();
  return name;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const GraftJit* graft_jit(
    void) {  // NOLINT(readability-identifier-naming): a C name
  static const GraftJit table{graftJitVersion, compilerName().c_str(), hostLevel, compile, load, find, unload, release};
  return &table;
}
