#include "core/formats/format_list.h"

#include <fstream>
#include <iterator>
#include <set>

#include "core/formats/export.h"
#include "core/formats/registry.h"
#include "tests/support/catch.h"

using namespace graft;

TEST_CASE("no two formats have one name, title or ending") {
  std::set<std::string_view> names, titles, endings;
  for (const FileFormat& f : fileFormats) {
    CHECK(names.insert(f.name).second);
    CHECK(titles.insert(f.title).second);
    std::vector<std::string_view> own(f.otherEndings.begin(), f.otherEndings.end());
    own.push_back(f.ending);
    for (std::string_view ending : own) {
      if (ending.empty()) continue;
      CHECK(ending.starts_with('.'));
      CHECK(endings.insert(ending).second);
    }
  }
}

TEST_CASE("the registry has the functions of each listed format") {
  REQUIRE(formats().size() == fileFormats.size());
  for (size_t i = 0; i < fileFormats.size(); ++i) {
    const Format& f = formats()[i];
    CHECK(f.file == &fileFormats[i]);
    CHECK(f.read != nullptr);
    CHECK((f.matchesBytes != nullptr) != (f.matchesArchive != nullptr));
    CHECK((f.write != nullptr) == f.file->canWrite);
    CHECK((!f.file->canWrite || !f.file->ending.empty()));
  }
}

TEST_CASE("folders, dialogs and export know the formats by their endings") {
  CHECK(modelPatterns() == "*.pt *.pth *.ts *.fx *.pt2 *.txt");
  CHECK(endingPatterns() == std::vector<std::string>{"*.pt", "*.fx", "*.pt2"});
  CHECK(modelKinds() == "TorchScript (.pt), torch.fx (.fx) or torch.export (.pt2)");
  CHECK(formatOfEnding(".fx")->name == "fx");
  CHECK_FALSE(formatOfEnding(".txt"));
  CHECK_FALSE(formatOfEnding(""));
  CHECK((*exportFormat("a/b.pt2"))->name == "torch.export");
  CHECK((*exportFormat("b.pt"))->name == "torchscript");
  const auto refused = exportFormat("b.fx");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message ==
        "cannot write a model to \"b.fx\": end it in .pt for TorchScript or .pt2 for torch.export");
}

TEST_CASE("the desktop's file type has the ending of each format") {
  std::ifstream file(GRAFT_SOURCE_DIR "/resources/graft-mime.xml");
  const std::string mime(std::istreambuf_iterator<char>(file), {});
  for (const std::string& pattern : endingPatterns())
    CHECK(mime.find("<glob pattern=\"" + pattern + "\"") != std::string::npos);
}
