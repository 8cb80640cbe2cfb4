// Machine code at run time, behind a table of C functions: libgraft_ops_llvm.so implements it with LLVM, and links that
// statically, so nobody needs a compiler. Whoever wants it opens the library with dlopen when it is first needed.
//
//   void* library = dlopen("…/libgraft_ops_llvm.so", RTLD_NOW | RTLD_LOCAL);
//   const GraftJit* jit = ((GraftJitFunction)dlsym(library, "graft_jit"))();
//   GraftJitBytes object{}, error{};
//   if (jit->compile(ir, strlen(ir), jit->host_level(), &object, &error) == 0) {
//     GraftJitModule* module = jit->load(object.data, object.size, &error);
//     void* nest = jit->find(module, "nest_0");
//   }
//
// Every function may be called from any thread at any time. None throws or ends the process. An object is machine code
// like any other: load() runs no check of what it does, so whoever keeps objects in files must know that they are
// its own and whole.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { graftJitVersion = 1 };

/// The instructions that code may use. An object for one of them does the same on every machine that has them.
enum GraftJitLevel {
  graftJitBase = 0,    ///< what every x86-64 has; on other processors, what all of them have
  graftJitAvx2 = 1,    ///< AVX2, FMA, F16C and BMI
  graftJitAvx512 = 2,  ///< AVX-512 F, BW, CD, DQ and VL, with 512-bit vectors
};

/// Bytes that the library has allocated; release() frees them. A text ends with a 0 that `size` does not count.
typedef struct GraftJitBytes {
  unsigned char* data;
  size_t size;
} GraftJitBytes;

/// An object in memory, ready to run.
typedef struct GraftJitModule GraftJitModule;

typedef struct GraftJit {
  int version;           ///< graftJitVersion; of another one, nothing else may be used
  const char* compiler;  ///< "LLVM 14.0.6", which objects depend on

  /// The highest level that this machine and its operating system support.
  int (*host_level)(void);
  /// Machine code of a module in LLVM's text form, as the bytes of an object file. 0, or 1 and a text in `error`.
  int (*compile)(const char* ir, size_t size, int level, GraftJitBytes* object, GraftJitBytes* error);
  /// Loads an object that compile() has made, of this version of the compiler. Null and a text in `error` where it
  /// cannot. The object's bytes may be freed afterwards.
  GraftJitModule* (*load)(const unsigned char* object, size_t size, GraftJitBytes* error);
  /// The address of a function; null where the module has none of that name.
  void* (*find)(const GraftJitModule* module, const char* name);
  /// Unloads the module. None of its functions may run any more.
  void (*unload)(GraftJitModule* module);
  void (*release)(GraftJitBytes* bytes);
} GraftJit;

/// The type of graft_jit(), which the library exports and which never fails.
typedef const GraftJit* (*GraftJitFunction)(void);

#ifdef __cplusplus
}
#endif
