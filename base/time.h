#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace muster {

using Duration = std::chrono::nanoseconds;
// Wall-clock time since the Unix epoch. The core never reads a clock: `now` is an argument.
using TimePoint = std::chrono::sys_time<Duration>;

// RFC 3339 in UTC with whole seconds, as metav1.Time prints: 2026-11-30T12:00:00Z.
[[nodiscard]] std::string FormatTime(TimePoint time);
// RFC 3339 with microseconds, as metav1.MicroTime prints: 2026-11-30T12:00:00.123456Z.
[[nodiscard]] std::string FormatMicroTime(TimePoint time);
// Reads RFC 3339 with any fraction and any offset.
[[nodiscard]] Result<TimePoint> ParseTime(std::string_view text);

// As Go's time.Duration prints and reads: "1m30s", "20.5s", "0s", "1h0m0s".
[[nodiscard]] std::string FormatDuration(Duration duration);
[[nodiscard]] Result<Duration> ParseDuration(std::string_view text);

}  // namespace muster
