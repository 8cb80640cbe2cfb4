// Model files as archives: the mapped bytes of a file, and the directory of its zip. Needs no PyTorch. A directory that
// was read without an error is safe to use: every record lies within the file, overlaps no other, and has a plain
// relative name that occurs once. PyTorch packs only source text; other tools pack all records. All packed ones
// together may unpack to 128 MB and eight times the file's size.
//
//   Result<std::shared_ptr<MappedFile>> file = MappedFile::open("model.pt");
//   Result<ZipDirectory> zip = ZipDirectory::read(**file, "model.pt");
//   std::string_view json = zip->bytes(*zip->find("models/model.json"));
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"

namespace graft {

/// A file's bytes, private to this process: writing to them changes memory, never the file.
class MappedFile {
 public:
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  MappedFile(char* data, size_t size) : data_(data), size_(size) {}
  char* data_;
  size_t size_;
};

struct ZipRecord {
  std::string name;                             ///< without the archive's top folder
  size_t offset = 0, size = 0;                  ///< in the file; size is that of the content
  std::shared_ptr<const std::string> unpacked;  ///< of a record that was packed
};

class ZipDirectory {
 public:
  /// `path` and `wanted` are for messages, which tell what a file is that is no zip (empty, HTML, Git LFS pointer, cut
  /// off, bare pickle), or that it is no `wanted`.
  static Result<ZipDirectory> read(std::string_view file, const std::string& path,
                                   std::string_view wanted = "archive that PyTorch writes");

  const std::vector<ZipRecord>& records() const { return records_; }
  const ZipRecord* find(std::string_view name) const;
  /// Whether some record lies in that folder: "code".
  bool hasFolder(std::string_view folder) const;
  std::string_view bytes(const ZipRecord& r) const {
    return r.unpacked ? std::string_view(*r.unpacked) : file_.substr(r.offset, r.size);
  }
  /// The folder around all records, as torch.save writes it ("minilm"); empty where there is none.
  const std::string& topFolder() const { return topFolder_; }

 private:
  std::string_view file_;
  std::vector<ZipRecord> records_;
  std::unordered_map<std::string, size_t> byName_;
  std::string topFolder_;
};

/// A zip of stored records, in memory.
std::string writeZip(const std::vector<std::pair<std::string, std::string_view>>& records);

}  // namespace graft
