#include "kernels/generated/code_cache.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/cache_folder.h"

namespace graft::ops {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view firstWords = "graft code 2 ";
constexpr size_t hashLength = 40;

std::string hashOf(std::string_view bytes) { return c10::sha1(std::string(bytes)).str(); }
/// Of the key too: a file under another one's name is not taken for it.
std::string hashOf(std::string_view key, std::string_view code) { return hashOf(hashOf(key).append(code)); }

fs::path usualFolder() {
  const fs::path folder = cacheFolder();
  return folder.empty() ? folder : folder / "code";
}

/// Makes the folder where it is missing. The reason why it cannot be used; empty where it can.
std::string obstacle(const fs::path& folder) {
  if (folder.empty()) return "no folder for it is known";
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return "cannot make the folder " + folder.string();
  struct stat s {};
  if (lstat(folder.c_str(), &s) != 0 || !S_ISDIR(s.st_mode)) return folder.string() + " is no folder";
  if (s.st_uid != geteuid()) return folder.string() + " belongs to another user";
  if ((s.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to " + folder.string();
  return "";
}

/// Empty where the file is not there, or cannot be read to its end.
std::string contentOf(const fs::path& file) {
  try {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  } catch (const std::exception&) {  // the iterator throws on a folder, and where the disk fails
    return {};
  }
}

}  // namespace

CodeCache::CodeCache(fs::path folder, size_t mostBytes)
    : folder_(std::move(folder)), mostBytes_(mostBytes), unchecked_(mostBytes), whyNot_(obstacle(folder_)) {}

fs::path CodeCache::fileOf(std::string_view key) const { return folder_ / (hashOf(key) + ".code"); }

std::optional<std::string> CodeCache::find(std::string_view key) const {
  if (!whyNot_.empty()) return std::nullopt;
  const fs::path file = fileOf(key);
  const std::string all = contentOf(file);
  const size_t head = firstWords.size() + hashLength + 1;
  if (all.size() <= head || !all.starts_with(firstWords) || all[head - 1] != '\n') return std::nullopt;
  std::string code = all.substr(head);
  if (hashOf(key, code) != all.substr(firstWords.size(), hashLength)) return std::nullopt;
  // What is used stays.
  std::error_code ignored;
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  return code;
}

void CodeCache::store(std::string_view key, std::string_view code) const {
  if (!whyNot_.empty()) return;
  std::string all(firstWords);
  all += hashOf(key, code);
  all += '\n';
  all += code;
  if (const Status s = writeFileAtomically(fileOf(key).string(), all); !s) {
    TORCH_WARN_ONCE("graft::generated: compiled kernels are not kept for the next process: ", s.error().message);
    return;
  }
  // Looking at all files takes longer than writing one: that is done at first, and then for each 64th of the limit.
  if ((unchecked_ += all.size()) <= mostBytes_ / 64) return;
  unchecked_ = 0;
  removeOld();
}

void CodeCache::removeOld() const {
  struct Entry {
    fs::file_time_type used;
    fs::path file;
    size_t bytes;
  };
  std::vector<Entry> entries;
  size_t total = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const size_t bytes = at->file_size(gone);
    const auto used = at->last_write_time(gone);
    if (gone) continue;
    entries.push_back({used, at->path(), bytes});
    total += bytes;
  }
  if (total <= mostBytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= mostBytes_ / 4 * 3) return;
    if (fs::remove(e.file, error)) total -= e.bytes;
  }
}

const CodeCache& codeCache() {
  static const auto* const cache = [] {  // threads may outlive statics
    const auto* made = new CodeCache(usualFolder());
    if (!made->whyNot().empty()) {
      TORCH_WARN("graft::generated: compiled kernels are not kept for the next process: ", made->whyNot());
    }
    return made;
  }();
  return *cache;
}

}  // namespace graft::ops
