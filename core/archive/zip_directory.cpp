#include "core/archive/zip_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/archive/inflate.h"

namespace graft {
namespace {

// Signatures and sizes of the zip format (APPNOTE.TXT 6.3).
constexpr uint32_t localSignature = 0x04034b50, centralSignature = 0x02014b50, endSignature = 0x06054b50;
constexpr uint32_t end64Signature = 0x06064b50, locatorSignature = 0x07064b50;
constexpr size_t localSize = 30, centralSize = 46, endSize = 22, end64Size = 56, locatorSize = 20;
constexpr size_t maxRecords = 1'000'000, maxNameLength = 1024, maxUnpacked = size_t{128} << 20;
// Weights that somebody packed shrink by less than this; what grows more, beyond maxUnpacked, is no model.
constexpr size_t mostGrowth = 8;

template <class T>
T readAt(std::string_view bytes, size_t at) {
  T v;  // Zips and every machine that we build for are little-endian.
  std::memcpy(&v, bytes.data() + at, sizeof v);
  return v;
}

bool validUtf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    const size_t n = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;
    if (n == 0 || i + n > s.size()) return false;
    for (size_t k = 1; k < n; ++k)
      if ((static_cast<unsigned char>(s[i + k]) >> 6) != 2) return false;
    i += n;
  }
  return true;
}

uint32_t checksum(std::string_view bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

bool plainName(std::string_view name) {
  if (name.empty() || name.size() > maxNameLength || name.front() == '/' || !validUtf8(name)) return false;
  if (name.find('\\') != name.npos || name.find('\0') != name.npos || (name.size() > 1 && name[1] == ':')) return false;
  for (size_t from = 0; from <= name.size();) {
    const size_t slash = std::min(name.find('/', from), name.size());
    const std::string_view part = name.substr(from, slash - from);
    // Without its first folder, "a//b" would be the absolute path "/b".
    if (part == ".." || part == "." || (part.empty() && slash < name.size())) return false;
    from = slash + 1;
  }
  return true;
}

bool startsWith(std::string_view bytes, std::string_view what) { return bytes.substr(0, what.size()) == what; }

// Says what a file is that is no zip, and what to do about it.
Error notAZip(std::string_view bytes, const std::string& path, std::string_view wanted) {
  std::string head(bytes.substr(0, 512));
  const size_t text = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  head.erase(0, text == head.npos ? head.size() : text);
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (bytes.empty()) return badInput(fmt::format("{} is empty; download or save it again", path));
  if (startsWith(head, "version https://git-lfs"))
    return badInput(fmt::format("{} is a Git LFS pointer, not the model: run 'git lfs pull' where it came from", path));
  if (startsWith(head, "<!doctype") || startsWith(head, "<html") || startsWith(head, "<head") ||
      startsWith(head, "<?xml"))
    return badInput(
        fmt::format("{} is a web page, not a model: the download gave an error page; download it again", path));
  if (startsWith(bytes, "PK\x03\x04"))
    return badInput(fmt::format("{} is cut off: the directory at its end is missing; copy or download it again", path));
  if (bytes[0] == '\x80' && bytes.size() > 1 && bytes[1] <= 5)
    return badInput(
        fmt::format("{} is a bare pickle, which cannot be read without running it; load it in Python and save the "
                    "model with torch.jit.trace(...).save(...) or torch.export.save(...)",
                    path));
  return badInput(fmt::format("{} is no {}", path, wanted));
}

struct DirectoryPlace {
  uint64_t offset = 0, size = 0, count = 0;
};

// Finds the record at the end of the file that says where the directory is. A comment of up to 65535 bytes may follow.
std::optional<DirectoryPlace> findDirectory(std::string_view file) {
  if (file.size() < endSize) return std::nullopt;
  const size_t lowest = file.size() - std::min(file.size(), endSize + 0xffff);
  for (size_t at = file.size() - endSize + 1; at-- > lowest;) {
    if (readAt<uint32_t>(file, at) != endSignature || at + endSize + readAt<uint16_t>(file, at + 20) != file.size())
      continue;
    DirectoryPlace place{readAt<uint32_t>(file, at + 16), readAt<uint32_t>(file, at + 12),
                         readAt<uint16_t>(file, at + 10)};
    if (at >= locatorSize && readAt<uint32_t>(file, at - locatorSize) == locatorSignature) {
      const auto end64 = readAt<uint64_t>(file, at - locatorSize + 8);
      if (end64 > file.size() || file.size() - end64 < end64Size || readAt<uint32_t>(file, end64) != end64Signature)
        return std::nullopt;
      place = {readAt<uint64_t>(file, end64 + 48), readAt<uint64_t>(file, end64 + 40),
               readAt<uint64_t>(file, end64 + 32)};
    }
    if (place.offset > at || place.size > at - place.offset) return std::nullopt;
    return place;
  }
  return std::nullopt;
}

struct Sizes {
  uint64_t packed, plain, header;
};

// An extra field holds sizes of 4 GiB and more, in this order, each only where its 32-bit field is full.
bool readZip64(std::string_view extra, Sizes& s) {
  for (size_t at = 0; at + 4 <= extra.size();) {
    const auto id = readAt<uint16_t>(extra, at), length = readAt<uint16_t>(extra, at + 2);
    if (length > extra.size() - at - 4) return false;
    if (id == 1) {
      size_t from = at + 4;
      for (uint64_t* field : {&s.plain, &s.packed, &s.header}) {
        if (*field != 0xffffffff) continue;
        if (from + 8 > at + 4 + length) return false;
        *field = readAt<uint64_t>(extra, from);
        from += 8;
      }
      return true;
    }
    at += 4 + length;
  }
  return s.packed != 0xffffffff && s.plain != 0xffffffff && s.header != 0xffffffff;
}

constexpr std::array<uint32_t, 256> crcTable = [] {
  std::array<uint32_t, 256> t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
    t[i] = c;
  }
  return t;
}();

uint32_t crc32(std::string_view bytes) {
  uint32_t c = 0xffffffff;
  for (char b : bytes) c = crcTable[(c ^ static_cast<unsigned char>(b)) & 0xff] ^ (c >> 8);
  return ~c;
}

template <class T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return badInput(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    const bool folder = S_ISDIR(info.st_mode);
    return badInput(path + (folder ? " is a directory; name the model file in it" : " is not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  const int reason = errno;
  ::close(fd);
  if (data == MAP_FAILED) return badInput(fmt::format("cannot read {}: {}", path, std::strerror(reason)));
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

Result<ZipDirectory> ZipDirectory::read(std::string_view file, const std::string& path, std::string_view wanted) {
  const auto place = findDirectory(file);
  if (!place) return notAZip(file, path, wanted);
  const auto corrupt = [&](std::string_view what) {
    return badInput(fmt::format("{} is corrupt: {}; copy or download it again", path, what));
  };
  if (place->count > maxRecords) return corrupt(fmt::format("it claims to hold {} records", place->count));

  ZipDirectory zip;
  zip.file_ = file;
  const std::string_view directory = file.substr(place->offset, place->size);
  std::vector<std::pair<size_t, size_t>> extents;
  size_t at = 0, unpackedBytes = 0;
  for (uint64_t i = 0; i < place->count; ++i) {
    if (directory.size() - at < centralSize || readAt<uint32_t>(directory, at) != centralSignature)
      return corrupt("its directory is torn");
    const auto flags = readAt<uint16_t>(directory, at + 8), method = readAt<uint16_t>(directory, at + 10);
    Sizes s{readAt<uint32_t>(directory, at + 20), readAt<uint32_t>(directory, at + 24),
            readAt<uint32_t>(directory, at + 42)};
    const size_t nameLength = readAt<uint16_t>(directory, at + 28), extraLength = readAt<uint16_t>(directory, at + 30);
    const size_t total = centralSize + nameLength + extraLength + readAt<uint16_t>(directory, at + 32);
    if (total > directory.size() - at) return corrupt("its directory is torn");
    const size_t entry = at;
    const std::string name(directory.substr(at + centralSize, nameLength));
    if (!readZip64(directory.substr(at + centralSize + nameLength, extraLength), s))
      return corrupt("a size is missing");
    at += total;
    if (!plainName(name))
      return badInput(fmt::format("{} holds a record with an unsafe name; Graft does not open it", path));
    if (flags & 1) return badInput(fmt::format("{} is encrypted; decrypt it first", path));
    if (method != 8 && (method != 0 || s.packed != s.plain))
      return badInput(fmt::format("{}: record {} is packed in a way that PyTorch does not write; save the model again",
                                  path, name));
    if (s.header > file.size() || file.size() - s.header < localSize ||
        readAt<uint32_t>(file, s.header) != localSignature)
      return corrupt(fmt::format("record {} lies outside of it", name));
    const uint64_t begin =
        s.header + localSize + readAt<uint16_t>(file, s.header + 26) + readAt<uint16_t>(file, s.header + 28);
    if (begin > file.size() || s.packed > file.size() - begin)
      return corrupt(fmt::format("record {} lies outside of it", name));
    extents.emplace_back(s.header, begin + s.packed);
    if (name.ends_with('/')) continue;
    ZipRecord record{name, begin, s.plain, nullptr};
    if (method == 8) {
      unpackedBytes += s.plain;
      const size_t most = maxUnpacked + mostGrowth * file.size();
      if (s.plain > most || unpackedBytes > most || s.plain > maxUnpacked + mostGrowth * s.packed)
        return badInput(fmt::format("{} would unpack to more than {} MB; Graft does not open it", path, most >> 20));
      auto content = inflate(file.substr(begin, s.packed), s.plain);
      // PyTorch packs source text and debug records, and its reader does not check them.
      if (!content || checksum(*content) != readAt<uint32_t>(directory, entry + 16))
        return corrupt(fmt::format("record {} does not unpack", name));
      record.unpacked = std::make_shared<const std::string>(std::move(*content));
    }
    zip.records_.push_back(std::move(record));
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].first < extents[i - 1].second) return corrupt("its records overlap");

  // Names lose the top folder where all records share it.
  if (!zip.records_.empty()) {
    const std::string& first = zip.records_[0].name;
    const std::string folder = first.substr(0, std::min(first.find('/'), first.size()));
    const bool shared = std::all_of(zip.records_.begin(), zip.records_.end(), [&](const ZipRecord& r) {
      return startsWith(r.name, folder) && r.name[folder.size()] == '/';
    });
    if (shared) {
      zip.topFolder_ = folder;
      for (ZipRecord& r : zip.records_) r.name.erase(0, folder.size() + 1);
    }
  }
  for (size_t i = 0; i < zip.records_.size(); ++i)
    if (!zip.byName_.emplace(zip.records_[i].name, i).second)
      return badInput(
          fmt::format("{} holds two records named {}; Graft does not guess which counts", path, zip.records_[i].name));
  return zip;
}

bool ZipDirectory::hasFolder(std::string_view folder) const {
  return std::any_of(records_.begin(), records_.end(), [&](const ZipRecord& r) {
    return r.name.size() > folder.size() && r.name[folder.size()] == '/' && r.name.starts_with(folder);
  });
}

const ZipRecord* ZipDirectory::find(std::string_view name) const {
  const auto it = byName_.find(std::string(name));
  return it == byName_.end() ? nullptr : &records_[it->second];
}

std::string writeZip(const std::vector<std::pair<std::string, std::string_view>>& records) {
  std::string out, directory;
  for (const auto& [name, bytes] : records) {
    std::string common;  // the fields that the local header and the directory share
    put<uint16_t>(common, 20);
    put<uint16_t>(common, 0);
    put<uint16_t>(common, 0);
    put<uint32_t>(common, 0x00210000);  // 1980-01-01
    put<uint32_t>(common, crc32(bytes));
    put<uint32_t>(common, static_cast<uint32_t>(bytes.size()));
    put<uint32_t>(common, static_cast<uint32_t>(bytes.size()));
    put<uint16_t>(common, static_cast<uint16_t>(name.size()));
    put<uint16_t>(common, 0);
    put(directory, centralSignature);
    put<uint16_t>(directory, 20);
    directory += common;
    put<uint16_t>(directory, 0);
    put<uint16_t>(directory, 0);
    put<uint16_t>(directory, 0);
    put<uint32_t>(directory, 0);
    put<uint32_t>(directory, static_cast<uint32_t>(out.size()));
    directory += name;
    put(out, localSignature);
    out += common;
    out += name;
    out += bytes;
  }
  const auto offset = static_cast<uint32_t>(out.size());
  out += directory;
  put(out, endSignature);
  put<uint32_t>(out, 0);
  put<uint16_t>(out, static_cast<uint16_t>(records.size()));
  put<uint16_t>(out, static_cast<uint16_t>(records.size()));
  put<uint32_t>(out, static_cast<uint32_t>(directory.size()));
  put<uint32_t>(out, offset);
  put<uint16_t>(out, 0);
  return out;
}

}  // namespace graft
