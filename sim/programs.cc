#include "sim/programs.h"

#include <map>
#include <utility>

#include "cel/device_env.h"

namespace muster::sim {
namespace {

// Far more than any cluster's policies and schemas; whoever invents more expressions than that pays
// for compiling them again.
constexpr std::size_t kMaxPrograms = 4096;

cel::Env EnvOf(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::kCrdRule:
      return cel::Env::CrdRule();
    case ProgramKind::kCrdMessage: {
      cel::Env env = cel::Env::CrdRule();
      env.result = cel::StringType();
      return env;
    }
    case ProgramKind::kAdmissionBool:
      return cel::Env::Admission();
    case ProgramKind::kAdmissionAny:
      return cel::Env::Admission(cel::DynType());
    case ProgramKind::kAdmissionMessage:
      return cel::Env::Admission(cel::StringType());
    case ProgramKind::kMutation:
      return cel::Env::Mutation();
    case ProgramKind::kDevice:
      return cel::Env::Device();
  }
  return cel::Env::Admission();
}

}  // namespace

const Result<cel::Program>& CompileOnce(ProgramKind kind, const std::string& text) {
  thread_local std::map<std::pair<ProgramKind, std::string>, Result<cel::Program>> programs;
  const auto key = std::pair(kind, text);
  const auto found = programs.find(key);
  if (found != programs.end()) {
    return found->second;
  }
  if (programs.size() >= kMaxPrograms) {
    programs.clear();
  }
  return programs.emplace(key, cel::Program::Compile(text, EnvOf(kind))).first->second;
}

}  // namespace muster::sim
