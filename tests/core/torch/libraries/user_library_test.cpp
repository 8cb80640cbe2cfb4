// Libraries of the user's own operators, and what is known of operators that no library brought.
#include <fstream>

#include "core/torch/operator_library.h"
#include "core/torch/semantics.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/temp_dir.h"

using namespace graft;
using test::graphOf;
using test::writeFile;

namespace {

const char* const model =
    "graph g {\n input %x : f32[4]\n %a = my.fused.default(%x)\n %b = my.fused.default(%a)\n return %b\n}";

}  // namespace

TEST_CASE("missing operators are listed with the library that a file names for them, which nobody loads") {
  const Graph g = graphOf(model);
  auto missing = missingOperators(g);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].name == "my.fused.default");
  CHECK(missing[0].nodes == std::vector<std::string>{"a", "b"});
  CHECK(missing[0].library.empty());
  CHECK(userLibrariesOf(g).empty());
  CHECK_THAT(
      missingOperatorsText({"my.fused.default"}),
      ContainsSubstring("--library LIB.so, or with --library MODULE.py, a file of Python that imports its package"));
  CHECK_THAT(missingOperatorsText({"my.fused.default", "higher_order.map"}),
             StartsWith("the model calls higher_order.map, which takes a function of Python's"));

  const test::TempDir folder;
  const std::string path = (folder / "libmy.so").string();
  noteLibraryOfFile({path, {"my.fused.default"}});
  missing = missingOperators(g);
  CHECK(missing[0].library == path);
  CHECK_FALSE(missing[0].libraryExists);
  CHECK_THAT(missingOperatorsText({"my.fused.default"}), ContainsSubstring(path + ", which is not there"));
  REQUIRE(userLibrariesOf(g).size() == 1);
  CHECK(userLibrariesOf(g)[0].path == path);
  writeFile(path, "");
  CHECK(missingOperators(g)[0].libraryExists);
  CHECK_THAT(missingOperatorsText({"my.fused.default"}), ContainsSubstring("--library " + path));
  CHECK(userLibraries().empty());
}

TEST_CASE("what a terminal would take for a command is no library's path") {
  noteLibraryOfFile({"/tmp/\x1b[2J.so", {"my.other.default"}});
  CHECK_THAT(missingOperatorsText({"my.other.default"}), !ContainsSubstring("\x1b"));
}

TEST_CASE("operators of a library that is loaded later are found by those who asked before") {
  const auto semantics = makeTorchSemantics();
  CHECK(semantics->operators().find("my.fused.default") == nullptr);
  CHECK(semantics->operators().overloads("my.fused").empty());
  const auto library = loadUserLibrary(OWN_OPERATORS);
  REQUIRE_RESULT(library);
  CHECK(library->operators == std::vector<std::string>{"my.first.default", "my.fused.default"});
  REQUIRE(semantics->operators().find("my.fused.default") != nullptr);
  CHECK(semantics->operators().overloads("my.fused").size() == 1);
  CHECK(isUserLibraryLoaded(OWN_OPERATORS));
  // Again, and by another name of the same file.
  REQUIRE_RESULT(loadUserLibrary(OWN_OPERATORS));
  CHECK(userLibraries().size() == 1);
  const auto ofGraph = userLibrariesOf(graphOf(model));
  REQUIRE(ofGraph.size() == 1);
  CHECK(ofGraph[0].operators == std::vector<std::string>{"my.fused.default"});
}

TEST_CASE("what is no library is refused with the reason") {
  const test::TempDir folder;
  const auto why = [](const std::string& path) {
    const auto loaded = loadUserLibrary(path);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().kind == ErrorKind::BadInput);
    return loaded.error().message;
  };
  CHECK_THAT(why((folder / "gone.so").string()), ContainsSubstring("there is no library"));
  CHECK_THAT(why(folder.path().string()), ContainsSubstring("is a folder"));
  writeFile(folder / "text.so", "hello");
  CHECK_THAT(why((folder / "text.so").string()), ContainsSubstring("is no shared library"));
  std::ifstream in(OWN_OPERATORS, std::ios::binary);
  std::string start(4000, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  writeFile((folder / "cut.so").string(), start);
  CHECK_THAT(why((folder / "cut.so").string()), ContainsSubstring("is not whole"));
}
