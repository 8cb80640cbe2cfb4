// LoadedObject: an object file's code and data in memory of their own, with its calls into the mathematics library
// bound.
#pragma once

#include <memory>
#include <string>

namespace graft::jit {

class LoadedObject {
 public:
  /// Null and the reason where the bytes are no object that can be loaded.
  static std::unique_ptr<LoadedObject> load(const char* bytes, size_t size, std::string& error);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  void* find(const std::string& name) const;

 private:
  struct Parts;
  explicit LoadedObject(std::unique_ptr<Parts>);
  std::unique_ptr<Parts> parts_;
};

}  // namespace graft::jit
