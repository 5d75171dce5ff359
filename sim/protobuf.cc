#include "sim/protobuf.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/time.h"
#include "sim/access.h"
#include "sim/embedded.h"
#include "sim/patching.h"
#include "sim/schema.h"

namespace muster::sim {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr int kMaxDepth = 64;

const Json& Messages() {
  static const Json kMessages = ParseJson(kBuiltinWire);
  return kMessages;
}

// One field as it stands in the bytes.
struct Field {
  std::uint64_t number = 0;
  unsigned wire = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool done() const { return bytes_.empty(); }

  std::optional<Field> Next() {
    Field field;
    const auto key = Varint();
    if (!key) {
      return std::nullopt;
    }
    field.number = *key >> 3U;
    field.wire = static_cast<unsigned>(*key & 7U);
    switch (field.wire) {
      case 0: {
        const auto value = Varint();
        if (!value) {
          return std::nullopt;
        }
        field.value = *value;
        return field;
      }
      case 1:
        return Fixed(8, field);
      case 5:
        return Fixed(4, field);
      case 2: {
        const auto size = Varint();
        if (!size || *size > bytes_.size()) {
          return std::nullopt;
        }
        field.bytes = bytes_.substr(0, *size);
        bytes_.remove_prefix(*size);
        return field;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Field> Fixed(std::size_t size, Field field) {
    if (bytes_.size() < size) {
      return std::nullopt;
    }
    for (std::size_t i = 0; i < size; ++i) {
      field.value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8U * i);
    }
    bytes_.remove_prefix(size);
    return field;
  }

  std::optional<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) {
        return std::nullopt;
      }
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) {
        return value;
      }
    }
    return std::nullopt;
  }

  std::string_view bytes_;
};

std::unexpected<Error> Broken(const std::string& message) {
  return std::unexpected(Error::Invalid("protobuf: " + message));
}

Result<Json> Message(const std::string& name, std::string_view bytes, int depth);

// Messages that JSON writes as something else.
Result<std::optional<Json>> Special(const std::string& name, std::string_view bytes) {
  const bool time = name.ends_with("meta.v1.Time");
  const bool micro = name.ends_with("meta.v1.MicroTime");
  const bool quantity = name.ends_with("resource.Quantity");
  const bool either = name.ends_with("intstr.IntOrString");
  const bool raw = name.ends_with("runtime.RawExtension") || name.ends_with("meta.v1.FieldsV1") ||
                   name.ends_with("apiextensions.v1.JSON");
  const bool patch_or_bool = name.ends_with("JSONSchemaPropsOrBool") ||
                             name.ends_with("JSONSchemaPropsOrArray") ||
                             name.ends_with("JSONSchemaPropsOrStringArray");
  if (patch_or_bool) {
    return Broken("unsupported: " + name);
  }
  if (!time && !micro && !quantity && !either && !raw) {
    return std::optional<Json>();
  }
  std::int64_t numbers[3] = {0, 0, 0};
  std::string_view text[4];
  for (Reader reader(bytes); !reader.done();) {
    const auto field = reader.Next();
    if (!field) {
      return Broken("truncated " + name);
    }
    if (field->wire == 2 && field->number >= 1 && field->number <= 3) {
      text[field->number] = field->bytes;
    } else if (field->wire == 0 && field->number >= 1 && field->number <= 2) {
      numbers[field->number] = static_cast<std::int64_t>(field->value);
    }
  }
  if (time || micro) {
    if (bytes.empty()) {
      return std::optional<Json>(nullptr);
    }
    constexpr std::int64_t kFurthest = 9'000'000'000;
    if (numbers[1] > kFurthest || numbers[1] < -kFurthest || numbers[2] < 0 ||
        numbers[2] >= 1'000'000'000) {
      return Broken("a time out of range");
    }
    const TimePoint point(std::chrono::seconds(numbers[1]) + std::chrono::nanoseconds(numbers[2]));
    return std::optional<Json>(time ? FormatTime(point) : FormatMicroTime(point));
  }
  if (quantity) {
    return std::optional<Json>(text[1].empty() ? "0" : std::string(text[1]));
  }
  if (either) {
    return numbers[1] == 0 ? std::optional<Json>(static_cast<std::int32_t>(numbers[2]))
                           : std::optional<Json>(std::string(text[3]));
  }
  Json inner = ParseJson(text[1]);
  if (inner.is_discarded()) {
    return Broken("raw bytes that are not JSON in " + name);
  }
  return std::optional<Json>(std::move(inner));
}

Result<Json> One(const std::string& type, const Field& field, int depth) {
  if (type == "string") {
    return Json(std::string(field.bytes));
  }
  if (type == "bytes") {
    return Json(Base64Encode(field.bytes));
  }
  if (type == "bool") {
    return Json(field.value != 0);
  }
  if (type == "int") {
    return Json(static_cast<std::int64_t>(field.value));
  }
  if (type == "double") {
    double value = 0;
    std::memcpy(&value, &field.value, sizeof value);
    return Json(value);
  }
  if (field.wire != 2) {
    return Broken("a message expected for " + type);
  }
  return Message(type, field.bytes, depth + 1);
}

// The JSON shape of a message; parts that Go embeds are not fields of it.
const Schema* ShapeOf(const std::string& name) {
  return BuiltinTypes::Get().Definition(name.starts_with("k8s.io.") ? "io.k8s." + name.substr(7)
                                                                    : name);
}

Result<Json> Message(const std::string& name, std::string_view bytes, int depth) {
  if (depth > kMaxDepth) {
    return Broken("nested too deeply");
  }
  MUSTER_ASSIGN_OR_RETURN(std::optional<Json> special, Special(name, bytes));
  if (special) {
    return *std::move(special);
  }
  const Json* message = Member(Messages(), name);
  if (message == nullptr) {
    return Broken("unsupported: message " + name);
  }
  const Schema* shape = ShapeOf(name);
  Json out = Json::object();
  for (Reader reader(bytes); !reader.done();) {
    const auto field = reader.Next();
    if (!field) {
      return Broken("truncated " + name);
    }
    const Json* known = Member(*message, std::to_string(field->number));
    if (known == nullptr) {
      continue;
    }
    const std::string key = (*known)[0].get<std::string>();
    std::string type = (*known)[1].get<std::string>();
    if (type.starts_with("{}")) {
      type.erase(0, 2);
      std::string entry_key;
      Json value = type == "string" ? Json("") : Json();
      for (Reader entry(field->bytes); !entry.done();) {
        const auto part = entry.Next();
        if (!part) {
          return Broken("truncated " + name);
        }
        if (part->number == 1) {
          entry_key = std::string(part->bytes);
        } else if (part->number == 2) {
          MUSTER_ASSIGN_OR_RETURN(value, One(type, *part, depth));
        }
      }
      out[key][entry_key] = std::move(value);
    } else if (type.starts_with("[]")) {
      type.erase(0, 2);
      if (type == "int" && field->wire == 2) {
        return Broken("unsupported: packed numbers in " + name);
      }
      MUSTER_ASSIGN_OR_RETURN(Json value, One(type, *field, depth));
      out[key].push_back(std::move(value));
    } else {
      MUSTER_ASSIGN_OR_RETURN(Json value, One(type, *field, depth));
      const bool embedded = shape != nullptr && !shape->properties.empty() &&
                            !shape->properties.contains(key) && value.is_object();
      if (embedded) {
        out.update(value);
      } else {
        out[key] = std::move(value);
      }
    }
  }
  return out;
}

}  // namespace

bool IsProtobuf(std::string_view content_type) {
  return content_type.starts_with("application/vnd.kubernetes.protobuf");
}

Result<Json> DecodeProtobuf(std::string_view body) {
  if (!body.starts_with(kMagic)) {
    return Broken("the magic bytes are missing");
  }
  std::string api_version;
  std::string kind;
  std::string_view raw;
  for (Reader reader(body.substr(kMagic.size())); !reader.done();) {
    const auto field = reader.Next();
    if (!field) {
      return Broken("truncated envelope");
    }
    if (field->number == 1) {
      for (Reader meta(field->bytes); !meta.done();) {
        const auto part = meta.Next();
        if (!part) {
          return Broken("truncated envelope");
        }
        (part->number == 1 ? api_version : kind) = std::string(part->bytes);
      }
    } else if (field->number == 2) {
      raw = field->bytes;
    }
  }
  const std::size_t slash = api_version.find('/');
  const std::string group = slash == std::string::npos ? "" : api_version.substr(0, slash);
  const std::string version = api_version.substr(slash == std::string::npos ? 0 : slash + 1);
  std::string name = BuiltinTypes::Get().DefinitionName(group, version, kind);
  if (kind == "DeleteOptions") {
    name = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
  }
  if (name.empty()) {
    return Broken("unsupported: kind " + kind + " of " + api_version);
  }
  MUSTER_ASSIGN_OR_RETURN(Json object, Message("k8s.io." + name.substr(7), raw, 0));
  object["apiVersion"] = api_version;
  object["kind"] = kind;
  return object;
}

}  // namespace muster::sim
