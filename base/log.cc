#include "base/log.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "base/strings.h"
#include "base/time.h"

namespace muster::log {
namespace {

std::atomic<Level> g_level{Level::kInfo};

struct Sink {
  std::mutex mutex;
  std::function<void(std::string_view)> write;
};
Sink& TheSink() {
  static Sink sink;
  return sink;
}

std::string_view Name(Level level) {
  switch (level) {
    case Level::kDebug:
      return "debug";
    case Level::kInfo:
      return "info";
    case Level::kWarning:
      return "warning";
    case Level::kError:
      return "error";
  }
  return "info";
}

}  // namespace

void Write(Level level, std::string_view message, std::initializer_list<Field> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) {
    return;
  }
  std::string line = "{\"level\":\"";
  line += Name(level);
  line += "\",\"msg\":";
  AppendJsonString(line, message);
  for (const Field& field : fields) {
    line += ',';
    AppendJsonString(line, field.key);
    line += ':';
    if (const auto* text = std::get_if<std::string>(&field.value)) {
      AppendJsonString(line, *text);
    } else if (const auto* number = std::get_if<std::int64_t>(&field.value)) {
      line += std::to_string(*number);
    } else {
      line += std::get<bool>(field.value) ? "true" : "false";
    }
  }
  Sink& sink = TheSink();
  const std::scoped_lock lock(sink.mutex);
  if (sink.write) {
    line += "}\n";
    sink.write(line);
    return;
  }
  line += ",\"ts\":\"";
  line += FormatMicroTime(std::chrono::system_clock::now());
  line += "\"}\n";
  (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

void SetLevel(Level level) {
  g_level.store(level, std::memory_order_relaxed);
}

void SetSink(std::function<void(std::string_view)> sink) {
  Sink& the_sink = TheSink();
  const std::scoped_lock lock(the_sink.mutex);
  the_sink.write = std::move(sink);
}

}  // namespace muster::log
