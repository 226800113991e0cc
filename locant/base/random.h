// Random numbers that depend on a counter and on nothing else.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011) turns a 64-bit key and a 128-bit counter into 128 random bits. There is no hidden
// state, so a batch, a dropout mask or an initial weight can be drawn by any thread, in any
// order, on any machine, and is always the same.
//
//   philox4x32(counter, key)   the stateless function: four words for one counter
//   Random(seed, stream)       a sequence of draws; streams of one seed never overlap
//
// Integers and uniform() are the same on every machine; normal() is as exact as the C library's
// log and cos (the last bit may differ between C libraries).
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace locant {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds. counter and key: word 0 is the least significant.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

// The top 53 bits as a double in [0, 1): every value is a multiple of 2^-53.
constexpr double unit_interval(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// One sequence of draws. The key is the seed; the counter is (draw / 2, stream), since one
// Philox block gives two 64-bit draws. Copying copies the place in the sequence. One object
// belongs to one thread at a time.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0)
      : key_{low(seed), high(seed)}, stream_(stream) {}

  // Next 64 random bits.
  uint64_t next() {
    if ((draw_ & 1) == 0) {
      const uint64_t block = draw_ >> 1;
      words_ = philox4x32({low(block), high(block), low(stream_), high(stream_)}, key_);
    }
    const size_t first = (draw_ & 1) * 2;
    ++draw_;
    return uint64_t{words_[first]} | uint64_t{words_[first + 1]} << 32;
  }

  // Uniform in [0, 1), 53 bits. One draw.
  double uniform() { return unit_interval(next()); }

  // Normal, mean 0, variance 1 (Box and Muller 1958). Always two draws, with no value kept back:
  // what a call returns depends on its place in the sequence alone.
  double normal() {
    constexpr double kTwoPi = 6.283185307179586476925286766559;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));  // 1 - u is never 0
    return radius * std::cos(kTwoPi * uniform());
  }

  // Integer in [0, n), every value equally likely: draws from the incomplete last stretch of
  // 2^64 modulo n are thrown away. Throws std::invalid_argument for n = 0.
  uint64_t below(uint64_t n) {
    if (n == 0) throw std::invalid_argument("[random] below(n) needs n >= 1, got 0");
    const uint64_t rejected = (0 - n) % n;  // 2^64 mod n
    uint64_t bits = next();
    while (bits < rejected) bits = next();
    return bits % n;
  }

 private:
  static constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

  PhiloxKey key_;
  uint64_t stream_;
  uint64_t draw_ = 0;
  PhiloxCounter words_{};
};

// The random stream of something that has a name: FNV-1a of it.
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
}

}  // namespace locant
