#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace muster::k8s {

// Unpacks a gzip stream as it arrives; what has come in is given out at once, so it serves watches
// too.
class Gunzip {
 public:
  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Appends what `bytes` unpack to, at the most `limit` bytes in this call.
  // Errors   kRetry: not gzip, or beyond the limit.
  [[nodiscard]] Status Feed(std::string_view bytes, std::size_t limit, std::string& out);
  // At the end of a member: a body that ends elsewhere was cut.
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool finished_ = false;
};

}  // namespace muster::k8s
