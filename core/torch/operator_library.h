// Shared libraries of operators: Graft's own, libgraft_ops.so, and those that users write. Opening a library registers
// its operators with LibTorch.
//
//   if (Status s = loadOperatorLibrary(); !s) return s;     // graft:: operators run from here on
//   auto library = loadUserLibrary("build/libmy_ops.so");   // and my:: operators: library->operators
#pragma once

#include <string>
#include <vector>

#include "core/base/progress.h"
#include "core/base/result.h"
#include "core/ir/graph.h"

namespace graft {

/// Where Graft's own library lies: the loaded one, else $GRAFT_OPS, else libgraft_ops.so in a folder lib beside or
/// above the program. BadInput where none of these exists.
Result<std::string> findOperatorLibrary();
/// Loads Graft's own library, which findOperatorLibrary finds. Loading it twice is harmless.
Status loadOperatorLibrary();
/// What Graft's own library says about its operators, as JSON; null before it is loaded.
const char* describeOperatorLibrary();
/// Whether the graph calls a graft:: operator, and so needs Graft's own library to run.
bool usesGraftOperators(const Graph&);

/// A library of the user's own.
struct UserLibrary {
  std::string path;  ///< absolute
  /// "my.fused.default" of each operator that it defines or has kernels for.
  std::vector<std::string> operators;
};
/// Loads a library that the user named: a shared library, which runs in this process, or a Python module (*.py), whose
/// operators a Python process of its own runs. Loading the same file twice is harmless. Errors are BadInput: there is
/// no such file, it is no library, it was built for another PyTorch, it defines nothing.
Result<UserLibrary> loadUserLibrary(const std::string& path, const Job& = {});
/// All that were loaded, in that order.
std::vector<UserLibrary> userLibraries();
/// Those that the graph needs to run, each with the operators that the graph calls; where operators are missing, also
/// those that the model's file names for them.
std::vector<UserLibrary> userLibrariesOf(const Graph&);
/// Whether that file was loaded.
bool isUserLibraryLoaded(const std::string& path);

/// An operator that this machine does not have, and where a graph calls it.
struct MissingOperator {
  std::string name;                ///< "my.fused.default"
  std::vector<std::string> nodes;  ///< in the graph's order
  std::string library;             ///< that a model's file names for it: a path; "": none does
  bool libraryExists = false;      ///< there is a file of that name
};
std::vector<MissingOperator> missingOperators(const Graph&);
/// Whether no library brings it: an object of C++ that the model keeps, or an operator that takes a function of
/// Python's.
bool isOfNoLibrary(const Operator&);
/// What to do about operators that this machine does not have: which file to give by --library, where a model's file
/// says it. A library that a model's file names is never loaded without the user's word: it could be anything.
std::string missingOperatorsText(const std::vector<std::string>& names);
/// Keeps in mind what a model's file says: these operators come from that library.
void noteLibraryOfFile(const UserLibrary&);

}  // namespace graft
