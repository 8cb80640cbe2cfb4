// Runs a fuzz target's entry point on every file of its corpus, and on each file changed in many ways: what once
// crashed must not crash again. Needs no clang; the changes are the same in every run.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int copies = 5000;

struct Random {
  uint64_t state = 88172645463325252ULL;
  size_t below(size_t n) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return n ? state % n : 0;
  }
};

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::string changed(std::string bytes, Random& random) {
  for (size_t times = 1 + random.below(3); times-- > 0 && !bytes.empty();) {
    const size_t at = random.below(bytes.size()), length = random.below(bytes.size() - at);
    switch (random.below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes.erase(at, length % 32);
        break;
      case 2:
        bytes.insert(random.below(bytes.size()), bytes.substr(at, length % 32));
        break;
      case 3:
        bytes.resize(at);
        break;
      default:
        bytes.replace(at, std::min<size_t>(length, 4), "\xff\xff\xff\x7f");
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  size_t count = 0;
  Random random;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      run(bytes);
      for (int j = 0; j < copies; ++j) run(changed(bytes, random));
      ++count;
    }
  std::printf("%zu files replayed, each with %d changed copies\n", count, copies);
  return count > 0 ? 0 : 1;
}
