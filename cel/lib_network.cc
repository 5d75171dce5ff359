// IP addresses, CIDR blocks, URLs.
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "cel/functions.h"
#include "cel/value_internal.h"

namespace muster::cel {
namespace {

using Kind = Value::Kind;

// ---- addresses ----

struct Address {
  bool is_v4 = false;
  std::array<std::uint8_t, 16> bytes{};  // an IPv4 address uses the first four
  [[nodiscard]] std::size_t size() const { return is_v4 ? 4 : 16; }
  [[nodiscard]] int bits() const { return is_v4 ? 32 : 128; }
  friend bool operator==(const Address&, const Address&) = default;
};

bool ParseV4(std::string_view text, std::uint8_t* out) {
  for (int part = 0; part < 4; ++part) {
    if (part > 0) {
      if (text.empty() || text[0] != '.') {
        return false;
      }
      text.remove_prefix(1);
    }
    std::size_t digits = 0;
    int value = 0;
    while (digits < text.size() && digits < 4 && text[digits] >= '0' && text[digits] <= '9') {
      value = value * 10 + (text[digits] - '0');
      ++digits;
    }
    // No leading zeros, so that nobody reads an octal number.
    if (digits == 0 || value > 255 || (digits > 1 && text[0] == '0')) {
      return false;
    }
    out[part] = static_cast<std::uint8_t>(value);
    text.remove_prefix(digits);
  }
  return text.empty();
}

std::optional<Address> ParseV6(std::string_view text) {
  std::array<std::uint16_t, 8> groups{};
  int count = 0;
  int gap = -1;
  if (text.starts_with("::")) {
    gap = 0;
    text.remove_prefix(2);
  }
  while (!text.empty()) {
    if (count == 8) {
      return std::nullopt;
    }
    std::size_t digits = 0;
    unsigned value = 0;
    while (digits < text.size() && digits < 5) {
      const auto [end, error] =
          std::from_chars(text.data() + digits, text.data() + digits + 1, value, 16);
      if (error != std::errc()) {
        break;
      }
      ++digits;
    }
    if (digits == 0 || digits > 4) {
      return std::nullopt;
    }
    if (digits < text.size() && text[digits] == '.') {
      // The last four bytes may be written as an IPv4 address.
      std::array<std::uint8_t, 4> tail{};
      if (count > 6 || !ParseV4(text, tail.data())) {
        return std::nullopt;
      }
      groups[static_cast<std::size_t>(count++)] =
          static_cast<std::uint16_t>(tail[0] << 8 | tail[1]);
      groups[static_cast<std::size_t>(count++)] =
          static_cast<std::uint16_t>(tail[2] << 8 | tail[3]);
      break;
    }
    std::from_chars(text.data(), text.data() + digits, value, 16);
    groups[static_cast<std::size_t>(count++)] = static_cast<std::uint16_t>(value);
    text.remove_prefix(digits);
    if (text.empty()) {
      break;
    }
    if (text[0] != ':' || text.size() == 1) {
      return std::nullopt;
    }
    text.remove_prefix(1);
    if (text[0] == ':') {
      if (gap >= 0) {
        return std::nullopt;
      }
      gap = count;
      text.remove_prefix(1);
    }
  }
  if (gap < 0 ? count != 8 : count > 7) {
    return std::nullopt;
  }
  Address out;
  for (int i = 0; i < count; ++i) {
    const int at = gap >= 0 && i >= gap ? 8 - count + i : i;
    out.bytes[static_cast<std::size_t>(at) * 2] =
        static_cast<std::uint8_t>(groups[static_cast<std::size_t>(i)] >> 8);
    out.bytes[static_cast<std::size_t>(at) * 2 + 1] =
        static_cast<std::uint8_t>(groups[static_cast<std::size_t>(i)] & 0xFF);
  }
  return out;
}

// Refuses zones and IPv4-mapped IPv6 addresses, as the Kubernetes library does.
std::optional<Address> ParseAddress(std::string_view text) {
  if (!text.contains(':')) {
    Address out{.is_v4 = true};
    return ParseV4(text, out.bytes.data()) ? std::optional<Address>(out) : std::nullopt;
  }
  std::optional<Address> out = ParseV6(text);
  if (out) {
    bool mapped = out->bytes[10] == 0xFF && out->bytes[11] == 0xFF;
    for (std::size_t i = 0; i < 10; ++i) {
      mapped = mapped && out->bytes[i] == 0;
    }
    if (mapped) {
      return std::nullopt;
    }
  }
  return out;
}

std::string Print(const Address& address) {
  std::string out;
  if (address.is_v4) {
    for (std::size_t i = 0; i < 4; ++i) {
      out += (i == 0 ? "" : ".") + std::to_string(address.bytes[i]);
    }
    return out;
  }
  const auto group = [&](std::size_t i) {
    return static_cast<unsigned>(address.bytes[i * 2]) << 8 | address.bytes[i * 2 + 1];
  };
  // The longest run of at least two zero groups becomes "::", the first one if several are as long.
  std::size_t best = 8;
  std::size_t best_length = 1;
  for (std::size_t i = 0; i < 8; ++i) {
    std::size_t end = i;
    while (end < 8 && group(end) == 0) {
      ++end;
    }
    if (end - i > best_length) {
      best = i;
      best_length = end - i;
    }
  }
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == best) {
      out += "::";
      i += best_length - 1;
      continue;
    }
    if (!out.empty() && !out.ends_with(':')) {
      out += ":";
    }
    char buffer[8];
    const auto result = std::to_chars(buffer, buffer + sizeof(buffer), group(i), 16);
    out.append(buffer, result.ptr);
  }
  return out;
}

class Ip final : public Opaque {
 public:
  explicit Ip(const Address& address) : address_(address) {}
  [[nodiscard]] std::string_view type_name() const override { return "net.IP"; }
  [[nodiscard]] bool Equals(const Opaque& other) const override {
    const auto* ip = dynamic_cast<const Ip*>(&other);
    return ip != nullptr && ip->address_ == address_;
  }
  [[nodiscard]] const Address& address() const { return address_; }

 private:
  Address address_;
};

class Cidr final : public Opaque {
 public:
  Cidr(const Address& address, int prefix) : address_(address), prefix_(prefix) {}
  [[nodiscard]] std::string_view type_name() const override { return "net.CIDR"; }
  [[nodiscard]] bool Equals(const Opaque& other) const override {
    const auto* cidr = dynamic_cast<const Cidr*>(&other);
    return cidr != nullptr && cidr->address_ == address_ && cidr->prefix_ == prefix_;
  }
  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] int prefix() const { return prefix_; }
  [[nodiscard]] bool Contains(const Address& other) const {
    return other.is_v4 == address_.is_v4 && Masked(other, prefix_) == Masked(address_, prefix_);
  }
  static Address Masked(Address address, int prefix) {
    for (std::size_t i = 0; i < address.size(); ++i) {
      const int keep = std::clamp(prefix - static_cast<int>(i) * 8, 0, 8);
      address.bytes[i] = static_cast<std::uint8_t>(address.bytes[i] & (0xFF00 >> keep));
    }
    return address;
  }

 private:
  Address address_;
  int prefix_;
};

std::optional<Cidr> ParseCidr(std::string_view text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<Address> address = ParseAddress(text.substr(0, slash));
  const std::string_view digits = text.substr(slash + 1);
  int prefix = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  const bool plain = !digits.empty() && digits[0] >= '0' && digits[0] <= '9' &&
                     (digits.size() == 1 || digits[0] != '0');
  if (!address || !plain || error != std::errc() || end != digits.data() + digits.size() ||
      prefix > address->bits()) {
    return std::nullopt;
  }
  return Cidr(*address, prefix);
}

Value MakeIp(const Address& address) {
  return Value::FromOpaque(std::make_shared<const Ip>(address));
}
Value MakeCidr(const Cidr& cidr) {
  return Value::FromOpaque(std::make_shared<const Cidr>(cidr));
}
// Accepts() has made sure of the type's name, and the names belong to these classes alone.
const Address& AddressOf(const Value& value) {
  return static_cast<const Ip&>(value.opaque_value()).address();
}
const Cidr& CidrOf(const Value& value) {
  return static_cast<const Cidr&>(value.opaque_value());
}

std::unexpected<Error> BadIp(std::string_view text) {
  return Fail("IP Address \"" + std::string(text.substr(0, 64)) +
              "\" parse error during conversion from string");
}
std::unexpected<Error> BadCidr(std::string_view text) {
  return Fail("network address parse error during conversion from string: \"" +
              std::string(text.substr(0, 64)) + "\"");
}

Result<Value> IsIp(const Call& call) {
  return Value::Bool(ParseAddress(call.args[0].string_value()).has_value());
}
Result<Value> ToIp(const Call& call) {
  const std::optional<Address> address = ParseAddress(call.args[0].string_value());
  if (!address) {
    return BadIp(call.args[0].string_value());
  }
  return MakeIp(*address);
}
Result<Value> IsCanonical(const Call& call) {
  const std::optional<Address> address = ParseAddress(call.args[0].string_value());
  if (!address) {
    return BadIp(call.args[0].string_value());
  }
  return Value::Bool(Print(*address) == call.args[0].string_value());
}
Result<Value> IpToString(const Call& call) {
  return Value::String(Print(AddressOf(call.args[0])));
}
Result<Value> Family(const Call& call) {
  return Value::Int(AddressOf(call.args[0]).is_v4 ? 4 : 6);
}

bool Loopback(const Address& a) {
  if (a.is_v4) {
    return a.bytes[0] == 127;
  }
  Address one;
  one.bytes[15] = 1;
  return a == one;
}
bool Unspecified(const Address& a) {
  return a == Address{.is_v4 = a.is_v4};
}
bool LinkLocalUnicast(const Address& a) {
  return a.is_v4 ? a.bytes[0] == 169 && a.bytes[1] == 254
                 : a.bytes[0] == 0xFE && (a.bytes[1] & 0xC0) == 0x80;
}
bool LinkLocalMulticast(const Address& a) {
  return a.is_v4 ? a.bytes[0] == 224 && a.bytes[1] == 0 && a.bytes[2] == 0
                 : a.bytes[0] == 0xFF && (a.bytes[1] & 0x0F) == 0x02;
}
bool Multicast(const Address& a) {
  return a.is_v4 ? (a.bytes[0] & 0xF0) == 0xE0 : a.bytes[0] == 0xFF;
}
bool Broadcast(const Address& a) {
  return a.is_v4 && a.bytes[0] == 255 && a.bytes[1] == 255 && a.bytes[2] == 255 &&
         a.bytes[3] == 255;
}
Result<Value> IsUnspecified(const Call& call) {
  return Value::Bool(Unspecified(AddressOf(call.args[0])));
}
Result<Value> IsLoopback(const Call& call) {
  return Value::Bool(Loopback(AddressOf(call.args[0])));
}
Result<Value> IsLinkLocalMulticast(const Call& call) {
  return Value::Bool(LinkLocalMulticast(AddressOf(call.args[0])));
}
Result<Value> IsLinkLocalUnicast(const Call& call) {
  return Value::Bool(LinkLocalUnicast(AddressOf(call.args[0])));
}
Result<Value> IsGlobalUnicast(const Call& call) {
  const Address& a = AddressOf(call.args[0]);
  return Value::Bool(!Broadcast(a) && !Unspecified(a) && !Loopback(a) && !Multicast(a) &&
                     !LinkLocalUnicast(a));
}

Result<Value> IsCidr(const Call& call) {
  return Value::Bool(ParseCidr(call.args[0].string_value()).has_value());
}
Result<Value> ToCidr(const Call& call) {
  const std::optional<Cidr> cidr = ParseCidr(call.args[0].string_value());
  if (!cidr) {
    return BadCidr(call.args[0].string_value());
  }
  return MakeCidr(*cidr);
}
Result<Value> ContainsIp(const Call& call) {
  if (!call.args[1].is(Kind::kString)) {
    return Value::Bool(CidrOf(call.args[0]).Contains(AddressOf(call.args[1])));
  }
  const std::optional<Address> address = ParseAddress(call.args[1].string_value());
  if (!address) {
    return BadIp(call.args[1].string_value());
  }
  return Value::Bool(CidrOf(call.args[0]).Contains(*address));
}
Result<Value> ContainsCidr(const Call& call) {
  const Cidr& outer = CidrOf(call.args[0]);
  std::optional<Cidr> inner;
  if (call.args[1].is(Kind::kString)) {
    inner = ParseCidr(call.args[1].string_value());
    if (!inner) {
      return BadCidr(call.args[1].string_value());
    }
  } else {
    inner = CidrOf(call.args[1]);
  }
  return Value::Bool(outer.prefix() <= inner->prefix() && outer.Contains(inner->address()));
}
Result<Value> CidrIp(const Call& call) {
  return MakeIp(CidrOf(call.args[0]).address());
}
Result<Value> PrefixLength(const Call& call) {
  return Value::Int(CidrOf(call.args[0]).prefix());
}
Result<Value> MaskedCidr(const Call& call) {
  const Cidr& cidr = CidrOf(call.args[0]);
  return MakeCidr(Cidr(Cidr::Masked(cidr.address(), cidr.prefix()), cidr.prefix()));
}
Result<Value> CidrToString(const Call& call) {
  const Cidr& cidr = CidrOf(call.args[0]);
  return Value::String(Print(cidr.address()) + "/" + std::to_string(cidr.prefix()));
}

// ---- URLs ----

int HexDigit(char c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  if (c >= 'a' && c <= 'f') {
    return c - 'a' + 10;
  }
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// Percent decoding; nullopt for a broken escape.
std::optional<std::string> Unescape(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size() || HexDigit(text[i + 1]) < 0 || HexDigit(text[i + 2]) < 0) {
        return std::nullopt;
      }
      out.push_back(static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2])));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

struct UrlParts {
  std::string scheme;
  std::string host;  // with brackets and port, as written
  std::string path;  // as written
  std::string query;
  friend bool operator==(const UrlParts&, const UrlParts&) = default;
};

// An absolute URI or an absolute path, as a request line has it. Escapes must be whole; blanks and
// control characters are refused.
std::optional<UrlParts> ParseUrl(std::string_view text) {
  UrlParts out;
  if (text.empty()) {
    return std::nullopt;
  }
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return std::nullopt;
    }
  }
  if (text == "*") {
    out.path = "*";
    return out;
  }
  const std::size_t fragment = text.find('#');
  if (fragment != std::string_view::npos) {
    if (!Unescape(text.substr(fragment + 1), false)) {
      return std::nullopt;
    }
    text = text.substr(0, fragment);
  }
  const std::size_t colon = text.find_first_of(":/?");
  if (colon == 0 && text[0] == ':') {
    return std::nullopt;
  }
  if (colon != std::string_view::npos && text[colon] == ':') {
    for (std::size_t i = 0; i < colon; ++i) {
      const char c = text[i];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      const bool other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
      if (!letter && (i == 0 || !other)) {
        return std::nullopt;
      }
      out.scheme.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    }
    text.remove_prefix(colon + 1);
  }
  if (const std::size_t mark = text.find('?'); mark != std::string_view::npos) {
    out.query = std::string(text.substr(mark + 1));
    text = text.substr(0, mark);
  }
  if (!text.starts_with("/")) {
    // "scheme:opaque" is a URI; without a scheme only absolute paths are.
    return out.scheme.empty() ? std::nullopt : std::optional<UrlParts>(out);
  }
  if (!out.scheme.empty() && text.starts_with("//")) {
    text.remove_prefix(2);
    std::string_view authority = text.substr(0, text.find('/'));
    text.remove_prefix(authority.size());
    if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
      const std::string_view user = authority.substr(0, at);
      if (!Unescape(user, false) || user.find_first_of(" <>[]{}|\\^\"") != std::string_view::npos) {
        return std::nullopt;
      }
      authority.remove_prefix(at + 1);
    }
    std::string_view port;
    if (authority.starts_with("[")) {
      const std::size_t close = authority.rfind(']');
      if (close == std::string_view::npos) {
        return std::nullopt;
      }
      port = authority.substr(close + 1);
    } else if (const std::size_t last = authority.rfind(':'); last != std::string_view::npos) {
      port = authority.substr(last);
    }
    if (!port.empty() && (port[0] != ':' || port.substr(1).find_first_not_of("0123456789") !=
                                                std::string_view::npos)) {
      return std::nullopt;
    }
    if (authority.find_first_of(" \"\\^`{}|") != std::string_view::npos) {
      return std::nullopt;
    }
    out.host = std::string(authority);
  }
  if (!Unescape(text, false)) {
    return std::nullopt;
  }
  out.path = std::string(text);
  return out;
}

class Url final : public Opaque {
 public:
  explicit Url(UrlParts parts) : parts_(std::move(parts)) {}
  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.URL"; }
  [[nodiscard]] bool Equals(const Opaque& other) const override {
    const auto* url = dynamic_cast<const Url*>(&other);
    return url != nullptr && url->parts_ == parts_;
  }
  [[nodiscard]] const UrlParts& parts() const { return parts_; }

 private:
  UrlParts parts_;
};

const UrlParts& PartsOf(const Call& call) {
  return static_cast<const Url&>(call.args[0].opaque_value()).parts();
}

Result<Value> IsUrl(const Call& call) {
  return Value::Bool(ParseUrl(call.args[0].string_value()).has_value());
}
Result<Value> ToUrl(const Call& call) {
  std::optional<UrlParts> parts = ParseUrl(call.args[0].string_value());
  if (!parts) {
    return Fail("URL parse error during conversion from string: invalid URI for request");
  }
  return Value::FromOpaque(std::make_shared<const Url>(*std::move(parts)));
}
// Where the port's colon is, or npos.
std::size_t PortColon(std::string_view host) {
  const std::size_t colon = host.rfind(':');
  return colon == std::string_view::npos || host.find(']', colon) != std::string_view::npos
             ? std::string_view::npos
             : colon;
}
Result<Value> GetScheme(const Call& call) {
  return Value::String(PartsOf(call).scheme);
}
Result<Value> GetHost(const Call& call) {
  return Value::String(PartsOf(call).host);
}
Result<Value> GetHostname(const Call& call) {
  std::string host = PartsOf(call).host;
  host = host.substr(0, PortColon(host));
  if (host.starts_with("[") && host.ends_with("]")) {
    host = host.substr(1, host.size() - 2);
  }
  return Value::String(std::move(host));
}
Result<Value> GetPort(const Call& call) {
  const std::string& host = PartsOf(call).host;
  const std::size_t colon = PortColon(host);
  return Value::String(colon == std::string::npos ? "" : host.substr(colon + 1));
}
Result<Value> GetEscapedPath(const Call& call) {
  // Characters that a path must not have as they are, are written as escapes.
  static constexpr std::string_view kAllowed = "-._~!$&'()*+,;=:@/%[]";
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : PartsOf(call).path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || kAllowed.contains(c)) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[static_cast<unsigned char>(c) >> 4]);
      out.push_back(kHex[static_cast<unsigned char>(c) & 15]);
    }
  }
  return Value::String(std::move(out));
}
Result<Value> GetQuery(const Call& call) {
  std::vector<std::pair<std::string, std::vector<Value>>> fields;
  std::string_view rest = PartsOf(call).query;
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view field = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    call.Charge(1 + static_cast<std::int64_t>(fields.size() / 8));
    if (call.exhausted()) {
      return Value();
    }
    const std::size_t equals = field.find('=');
    const std::optional<std::string> key = Unescape(field.substr(0, equals), true);
    const std::optional<std::string> value =
        equals == std::string_view::npos ? std::string() : Unescape(field.substr(equals + 1), true);
    if (field.empty() || field.contains(';') || !key || !value) {
      continue;  // as Go's Query() drops what it cannot read
    }
    auto known =
        std::ranges::find(fields, *key, &std::pair<std::string, std::vector<Value>>::first);
    if (known == fields.end()) {
      fields.emplace_back(*key, std::vector<Value>());
      known = fields.end() - 1;
    }
    known->second.push_back(Value::String(*value));
  }
  Value::Entries entries;
  for (auto& [key, values] : fields) {
    entries.emplace_back(Value::String(key), Value::List(std::move(values)));
  }
  return Value::Map(std::move(entries));
}

constexpr bool kGlobal = false;
constexpr bool kMember = true;

#define MUSTER_URL "kubernetes.URL"
constexpr Declaration kTable[] = {
    {"ip", kGlobal, "string", "net.IP", ToIp, Cost::kScan},
    {"isIP", kGlobal, "string", "bool", IsIp, Cost::kScan},
    {"ip.isCanonical", kGlobal, "string", "bool", IsCanonical, Cost::kTwoScans},
    {"family", kMember, "net.IP", "int", Family},
    {"isUnspecified", kMember, "net.IP", "bool", IsUnspecified},
    {"isLoopback", kMember, "net.IP", "bool", IsLoopback},
    {"isLinkLocalMulticast", kMember, "net.IP", "bool", IsLinkLocalMulticast},
    {"isLinkLocalUnicast", kMember, "net.IP", "bool", IsLinkLocalUnicast},
    {"isGlobalUnicast", kMember, "net.IP", "bool", IsGlobalUnicast},
    {"string", kGlobal, "net.IP", "string", IpToString},
    {"cidr", kGlobal, "string", "net.CIDR", ToCidr, Cost::kScan},
    {"isCIDR", kGlobal, "string", "bool", IsCidr, Cost::kScan},
    {"containsIP", kMember, "net.CIDR;string", "bool", ContainsIp},
    {"containsIP", kMember, "net.CIDR;net.IP", "bool", ContainsIp},
    {"containsCIDR", kMember, "net.CIDR;string", "bool", ContainsCidr},
    {"containsCIDR", kMember, "net.CIDR;net.CIDR", "bool", ContainsCidr},
    {"ip", kMember, "net.CIDR", "net.IP", CidrIp},
    {"prefixLength", kMember, "net.CIDR", "int", PrefixLength},
    {"masked", kMember, "net.CIDR", "net.CIDR", MaskedCidr},
    {"string", kGlobal, "net.CIDR", "string", CidrToString},
    {"url", kGlobal, "string", MUSTER_URL, ToUrl, Cost::kScan},
    {"isURL", kGlobal, "string", "bool", IsUrl, Cost::kScan},
    {"getScheme", kMember, MUSTER_URL, "string", GetScheme},
    {"getHost", kMember, MUSTER_URL, "string", GetHost},
    {"getHostname", kMember, MUSTER_URL, "string", GetHostname},
    {"getPort", kMember, MUSTER_URL, "string", GetPort},
    {"getEscapedPath", kMember, MUSTER_URL, "string", GetEscapedPath},
    {"getQuery", kMember, MUSTER_URL, "map<string,list<string>>", GetQuery},
};
#undef MUSTER_URL

}  // namespace

std::span<const Declaration> NetworkFunctions() {
  return kTable;
}

}  // namespace muster::cel
