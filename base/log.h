#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace muster::log {

enum class Level : std::uint8_t { kDebug, kInfo, kWarning, kError };

// One field of a line. Numbers stay numbers in the JSON.
struct Field {
  std::string_view key;
  std::variant<std::string, std::int64_t, bool> value;

  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, std::int64_t v) : key(k), value(v) {}
  Field(std::string_view k, int v) : key(k), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view k, std::uint64_t v) : key(k), value(static_cast<std::int64_t>(v)) {}
  Field(std::string_view k, bool v) : key(k), value(v) {}
};

// Writes one JSON object per line: {"level":"info","msg":"...","key":value}. `message` is a fixed
// sentence; what varies goes into fields. Every line parses as JSON, whatever the values hold.
// Threads: safe from any.
void Write(Level level, std::string_view message, std::initializer_list<Field> fields = {});
inline void Debug(std::string_view m, std::initializer_list<Field> f = {}) {
  Write(Level::kDebug, m, f);
}
inline void Info(std::string_view m, std::initializer_list<Field> f = {}) {
  Write(Level::kInfo, m, f);
}
inline void Warning(std::string_view m, std::initializer_list<Field> f = {}) {
  Write(Level::kWarning, m, f);
}
inline void Error(std::string_view m, std::initializer_list<Field> f = {}) {
  Write(Level::kError, m, f);
}

// Lines below `level` are dropped. Default: kInfo.
void SetLevel(Level level);
// Where complete lines (with the newline) go. Default: standard error with a time stamp. The
// simulator and tests install their own.
void SetSink(std::function<void(std::string_view line)> sink);

}  // namespace muster::log
