#include <algorithm>
#include <charconv>

#include "cel/value.h"

namespace muster::cel {
namespace {

bool IsDigits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
  });
}

Result<std::uint64_t> ParseNumber(std::string_view text, std::string_view what) {
  std::uint64_t value = 0;
  if (!IsDigits(text)) {
    return std::unexpected(Error::Invalid("Invalid character(s) found in " + std::string(what) +
                                          " number \"" + std::string(text) + "\""));
  }
  if (text.size() > 1 && text[0] == '0') {
    return std::unexpected(Error::Invalid(std::string(what) +
                                          " number must not contain leading zeroes \"" +
                                          std::string(text) + "\""));
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::unexpected(Error::Invalid(std::string(what) + " number is out of range"));
  }
  return value;
}

// Fills what the strict form wants: no leading v, three numbers, no leading zeros. The text is cut
// at its first two dots, whatever they belong to; so a shortened version cannot have a pre-release.
Result<std::string> Normalize(std::string_view text) {
  if (!text.empty() && text[0] == 'v') {
    text.remove_prefix(1);
  }
  std::vector<std::string> parts;
  while (parts.size() < 2) {
    const std::size_t dot = text.find('.');
    if (dot == std::string_view::npos) {
      break;
    }
    parts.emplace_back(text.substr(0, dot));
    text.remove_prefix(dot + 1);
  }
  parts.emplace_back(text);
  if (parts.size() < 3 && parts.back().find_first_of("+-") != std::string::npos) {
    return std::unexpected(
        Error::Invalid("short version cannot contain PreRelease/Build meta data"));
  }
  for (std::string& part : parts) {
    if (part.size() > 1) {
      const std::size_t zeros = std::min(part.find_first_not_of('0'), part.size());
      part.erase(0, zeros);
      if (part.empty() || part[0] < '0' || part[0] > '9') {
        part.insert(part.begin(), '0');
      }
    }
  }
  while (parts.size() < 3) {
    parts.emplace_back("0");
  }
  return parts[0] + "." + parts[1] + "." + parts[2];
}

int CompareNumbers(std::uint64_t a, std::uint64_t b) {
  return a < b ? -1 : (a > b ? 1 : 0);
}

int ComparePre(const std::string& a, const std::string& b) {
  const bool a_number = IsDigits(a);
  const bool b_number = IsDigits(b);
  if (a_number != b_number) {
    return a_number ? -1 : 1;
  }
  // Numbers have no leading zeros, so the longer one is the larger one.
  if (a_number && a.size() != b.size()) {
    return a.size() < b.size() ? -1 : 1;
  }
  const int order = a.compare(b);
  return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

}  // namespace

Result<Semver> Semver::Parse(std::string_view text, bool normalize) {
  std::string normalized;
  if (normalize) {
    MUSTER_ASSIGN_OR_RETURN(normalized, Normalize(text));
    text = normalized;
  }
  if (text.empty()) {
    return std::unexpected(Error::Invalid("Version string empty"));
  }
  Semver out;
  const std::size_t first = text.find('.');
  const std::size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  if (second == std::string_view::npos) {
    return std::unexpected(Error::Invalid("No Major.Minor.Patch elements found"));
  }
  MUSTER_ASSIGN_OR_RETURN(out.major, ParseNumber(text.substr(0, first), "Major"));
  MUSTER_ASSIGN_OR_RETURN(out.minor,
                          ParseNumber(text.substr(first + 1, second - first - 1), "Minor"));
  std::string_view rest = text.substr(second + 1);
  if (const std::size_t plus = rest.find('+'); plus != std::string_view::npos) {
    std::string_view build = rest.substr(plus + 1);
    out.build = std::string(build);
    rest = rest.substr(0, plus);
    while (true) {
      const std::size_t dot = build.find('.');
      if (!IsIdentifier(build.substr(0, dot))) {
        return std::unexpected(Error::Invalid("Invalid character(s) found in build meta data"));
      }
      if (dot == std::string_view::npos) {
        break;
      }
      build.remove_prefix(dot + 1);
    }
  }
  if (const std::size_t dash = rest.find('-'); dash != std::string_view::npos) {
    std::string_view pre = rest.substr(dash + 1);
    rest = rest.substr(0, dash);
    while (true) {
      const std::size_t dot = pre.find('.');
      const std::string_view part = pre.substr(0, dot);
      if (!IsIdentifier(part)) {
        return std::unexpected(Error::Invalid("Invalid character(s) found in prerelease"));
      }
      if (IsDigits(part)) {
        MUSTER_RETURN_IF_ERROR(ParseNumber(part, "Numeric PreRelease version"));
      }
      out.pre.emplace_back(part);
      if (dot == std::string_view::npos) {
        break;
      }
      pre.remove_prefix(dot + 1);
    }
  }
  MUSTER_ASSIGN_OR_RETURN(out.patch, ParseNumber(rest, "Patch"));
  return out;
}

int Semver::Compare(const Semver& other) const {
  for (const int order : {CompareNumbers(major, other.major),
                          CompareNumbers(minor, other.minor),
                          CompareNumbers(patch, other.patch)}) {
    if (order != 0) {
      return order;
    }
  }
  // A version without a pre-release is newer than any of its pre-releases.
  if (pre.empty() || other.pre.empty()) {
    return pre.empty() == other.pre.empty() ? 0 : (pre.empty() ? 1 : -1);
  }
  for (std::size_t i = 0; i < std::min(pre.size(), other.pre.size()); ++i) {
    const int order = ComparePre(pre[i], other.pre[i]);
    if (order != 0) {
      return order;
    }
  }
  return CompareNumbers(pre.size(), other.pre.size());
}

std::string Semver::ToString() const {
  std::string out =
      std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  for (std::size_t i = 0; i < pre.size(); ++i) {
    out += (i == 0 ? "-" : ".") + pre[i];
  }
  if (!build.empty()) {
    out += "+" + build;
  }
  return out;
}

}  // namespace muster::cel
