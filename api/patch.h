#pragma once

#include "api/json.h"
#include "base/result.h"

// JSON patches as pure functions. Documents deeper than kMaxJsonDepth must have been refused before
// (ParseJson does).
namespace muster::api {

// RFC 7386: members of `patch` replace those of `target`, null removes, anything but an object
// replaces the whole.
void ApplyMergePatch(Json& target, const Json& patch);

// RFC 6902. All or nothing: on an error `target` is as before.
// Errors   kInvalid, naming the operation: "patch[3] (replace /spec/suspend): no such member". A
// failed `test` is kConflict.
[[nodiscard]] Status ApplyJsonPatch(Json& target, const Json& patch);

// The merge patch that turns `from` into `to`; an empty object when they are equal. Lists are
// replaced whole. A member of `to` that is null cannot be expressed and is left out, as RFC 7386
// has no word for it; the API treats null as absent anyway.
[[nodiscard]] Json DiffMerge(const Json& from, const Json& to);

// True if two pod templates (or any part of one) mean the same to the API server: as ==, except
// that null equals absent and that quantities under `requests`, `limits` and `overhead` compare by
// value: "0.5G" equals "500M".
[[nodiscard]] bool EqualSemantically(const Json& a, const Json& b);

}  // namespace muster::api
