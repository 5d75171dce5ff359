#pragma once

#include <cstdint>

namespace muster {

// Small seeded generator (SplitMix64): the only source of chance in the core and in the simulator,
// so that a seed replays a run on any compiler.
class Prng {
 public:
  explicit Prng(std::uint64_t seed) : state_(seed) {}

  [[nodiscard]] std::uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound); bound > 0. The bias is below 2^-32 for every bound in use.
  [[nodiscard]] std::uint64_t Below(std::uint64_t bound) { return Next() % bound; }
  [[nodiscard]] bool Chance(std::uint64_t one_in) { return Below(one_in) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace muster
