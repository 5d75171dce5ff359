#include "base/digest.h"

#include <array>
#include <cstddef>

#include <openssl/evp.h>

namespace muster {
namespace {

std::string Hex(const EVP_MD* algorithm, std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, algorithm, nullptr) != 1) {
    return {};
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(size * 2UL);
  for (unsigned int i = 0; i < size; ++i) {
    out += kDigits[digest[i] >> 4U];
    out += kDigits[digest[i] & 15U];
  }
  return out;
}

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string Sha1Hex(std::string_view bytes) {
  return Hex(EVP_sha1(), bytes);
}
std::string Sha256Hex(std::string_view bytes) {
  return Hex(EVP_sha256(), bytes);
}

std::string Base64Encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    std::uint32_t group = static_cast<unsigned char>(bytes[i]) * 65536U;
    if (left > 1) {
      group += static_cast<unsigned char>(bytes[i + 1]) * 256U;
    }
    if (left > 2) {
      group += static_cast<unsigned char>(bytes[i + 2]);
    }
    out += kAlphabet[group >> 18U];
    out += kAlphabet[(group >> 12U) & 63U];
    out += left > 1 ? kAlphabet[(group >> 6U) & 63U] : '=';
    out += left > 2 ? kAlphabet[group & 63U] : '=';
  }
  return out;
}

bool Base64Decode(std::string_view text, std::string& out) {
  out.clear();
  std::uint32_t group = 0;
  int bits = 0;
  std::size_t padding = 0;
  std::size_t symbols = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      continue;  // kubeconfig data may be folded
    }
    ++symbols;
    if (c == '=') {
      ++padding;
      continue;
    }
    const std::size_t value = kAlphabet.find(c);
    if (padding > 0 || value == std::string_view::npos) {
      return false;
    }
    group = (group << 6U) | static_cast<std::uint32_t>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>((group >> static_cast<unsigned>(bits)) & 255U);
    }
  }
  return symbols % 4 == 0 && padding <= 2;
}

}  // namespace muster
