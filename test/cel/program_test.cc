#include "cel/program.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cel/authorizer.h"
#include "cel/device_env.h"

namespace muster::cel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Debug text of the result, or "error: ...", or "compile: ...".
std::string Eval(const std::string& text,
                 const Env& env,
                 const Activation& activation,
                 std::int64_t budget = kPerCallBudget) {
  const auto program = Program::Compile(text, env);
  if (!program) {
    return "compile: " + program.error().message;
  }
  const auto value = program->Run(activation, budget);
  return value ? value->DebugString() : "error: " + value.error().message;
}

std::string Eval(const std::string& text) {
  Env env = Env::CrdRule();
  env.result = DynType();
  return Eval(text, env, MapActivation());
}

Value Text(const char* text) {
  return Value::String(text);
}

TEST(Program, TellsLineAndColumnOfAMistake) {
  EXPECT_EQ(Eval("1 +\n  nope"),
            "compile: ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')");
  EXPECT_EQ(Eval("'é' + 1"),
            "compile: ERROR: <input>:1:5: found no matching overload for '_+_' applied to "
            "'(string, int)'");
}

TEST(Program, RefusesAResultOfTheWrongType) {
  EXPECT_THAT(Eval("1", Env::CrdRule(), MapActivation()),
              HasSubstr("must evaluate to bool, not int"));
  EXPECT_EQ(Eval("self", Env::CrdRule(), MapActivation{{"self", Value::Bool(true)}}), "true");
}

TEST(Program, ARunTimeValueOfTheWrongTypeIsAnError) {
  const auto program = Program::Compile("self", Env::CrdRule());
  ASSERT_TRUE(program);
  std::int64_t budget = 100;
  const auto value = program->RunBool(MapActivation{{"self", Value::Int(1)}}, budget);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "CEL result of type int could not be converted to bool");
}

TEST(Program, NamesTheMissingKey) {
  const MapActivation activation{{"self", Value::Map({{Text("a"), Value::Int(1)}})}};
  EXPECT_EQ(Eval("self.mem > 80", Env::CrdRule(), activation), "error: no such key: mem");
  EXPECT_EQ(Eval("has(self.mem) && self.mem > 80", Env::CrdRule(), activation), "false");
  EXPECT_EQ(Eval("self.a == 1 || self.mem > 80", Env::CrdRule(), activation), "true");
  EXPECT_EQ(Eval("self.mem > 80 || self.a == 1", Env::CrdRule(), activation), "true");
  EXPECT_EQ(Eval("oldSelf.a == 1", Env::CrdRule(), activation),
            "error: no such attribute(s): oldSelf");
}

TEST(Program, ListsTheVariablesItReads) {
  const auto program =
      Program::Compile("self.x == oldSelf.x && [1].all(self2, self2 > 0)", Env::CrdRule());
  ASSERT_TRUE(program);
  EXPECT_THAT(program->variables(), ElementsAre("oldSelf", "self"));
  EXPECT_TRUE(Program::Compile("[1].all(self, self > 0)", Env::CrdRule())->variables().empty());
}

TEST(Program, ChecksDeclaredFields) {
  const Type self =
      ObjectType("Self", {{"replicas", IntType()}, {"names", ListType(StringType())}});
  const MapActivation activation{
      {"self",
       Value::Map({{Text("replicas"), Value::Int(3)}, {Text("names"), Value::List({Text("a")})}})}};
  EXPECT_EQ(
      Eval("self.replicas < 5 && self.names.all(n, n.size() > 0)", Env::CrdRule(self), activation),
      "true");
  EXPECT_THAT(Eval("self.size == 1", Env::CrdRule(self), activation),
              HasSubstr("undefined field 'size'"));
  EXPECT_THAT(Eval("self.replicas == 'a'", Env::CrdRule(self), activation),
              HasSubstr("no matching overload"));
}

TEST(Program, ComputesALazyVariableOnce) {
  int calls = 0;
  MapActivation activation;
  activation.SetLazy("self", [&]() -> Result<Value> {
    ++calls;
    return Value::Int(2);
  });
  EXPECT_EQ(Eval("self + self == 4 || self == 0", Env::CrdRule(), activation), "true");
  EXPECT_EQ(calls, 1);
  MapActivation broken;
  broken.SetLazy(
      "self", []() -> Result<Value> { return std::unexpected(Error::Invalid("variable x: no")); });
  EXPECT_EQ(Eval("self == 1", Env::CrdRule(), broken), "error: variable x: no");
  EXPECT_EQ(Eval("self == 1 || true", Env::CrdRule(), broken), "true");
}

class LazyVariables final : public MapView {
 public:
  [[nodiscard]] std::size_t Size() const override { return 2; }
  [[nodiscard]] Result<std::optional<Value>> Find(const Value& key) const override {
    if (key.string_value() == "good") {
      return Value::Int(7);
    }
    if (key.string_value() == "bad") {
      return std::unexpected(Error::Invalid("variable bad failed"));
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<Value> Keys() const override { return {Text("good"), Text("bad")}; }
};

TEST(Program, VariablesMayFailOneByOne) {
  const MapActivation activation{
      {"variables", Value::Map(std::make_shared<const LazyVariables>())}};
  EXPECT_EQ(Eval("variables.good == 7", Env::Admission(), activation), "true");
  EXPECT_EQ(Eval("variables.bad == 7", Env::Admission(), activation), "error: variable bad failed");
  EXPECT_EQ(Eval("has(variables.bad)", Env::Admission(), activation), "true");
  EXPECT_EQ(Eval("variables.none == 7", Env::Admission(), activation), "error: no such key: none");
}

TEST(Program, BuildsTheObjectsOfMutation) {
  const MapActivation activation{
      {"object", Value::Map({{Text("metadata"), Value::Map({{Text("name"), Text("j")}})}})}};
  EXPECT_EQ(Eval("Object{spec: Object.spec{suspend: true, ?parallelism: optional.none()}}",
                 Env::Mutation(),
                 activation),
            "Object{\"spec\": Object.spec{\"suspend\": true}}");
  EXPECT_EQ(
      Eval("object.metadata.name == 'j' ? [JSONPatch{op: 'add', path: '/metadata/labels/' + "
           "jsonpatch.escapeKey('a/b~c'), value: 'x'}] : []",
           Env::Mutation(),
           activation),
      "[JSONPatch{\"op\": \"add\", \"path\": \"/metadata/labels/a~1b~0c\", \"value\": \"x\"}]");
  EXPECT_EQ(Eval("has(object.metadata.labels) ? [] : [JSONPatch{op: 'add', path: "
                 "'/metadata/labels', value: {}}]",
                 Env::Mutation(),
                 activation),
            "[JSONPatch{\"op\": \"add\", \"path\": \"/metadata/labels\", \"value\": {}}]");
  EXPECT_EQ(Eval("Object{spec: Object.spec{template: Object.spec.template{spec: "
                 "Object.spec.template.spec{schedulingGates: "
                 "[Object.spec.template.spec.schedulingGates{name: "
                 "'g'}]}}}}.spec.template.spec.schedulingGates[0].name",
                 Env::Mutation(),
                 activation),
            "\"g\"");
  EXPECT_EQ(Eval("Object{metadata: Object.metadata{labels: {'a': 'b'}}}.metadata.labels['a']",
                 Env::Mutation(),
                 activation),
            "\"b\"");
}

TEST(Program, RefusesObjectsThatCannotBe) {
  const MapActivation activation;
  EXPECT_THAT(Eval("Object{spec: Object.metadata{}}", Env::Mutation(), activation),
              HasSubstr("expected type 'Object.spec'"));
  EXPECT_THAT(Eval("Object{spec: [Object.metadata{}]}", Env::Mutation(), activation),
              HasSubstr("expected type 'Object.spec'"));
  EXPECT_THAT(Eval("JSONPatch{op: 1}", Env::Mutation(), activation), HasSubstr("field 'op'"));
  EXPECT_THAT(Eval("JSONPatch{opp: 'add'}", Env::Mutation(), activation),
              HasSubstr("undefined field 'opp'"));
  EXPECT_THAT(Eval("Object{spec: 1, spec: 2}", Env::Mutation(), activation),
              HasSubstr("given twice"));
  Env validation = Env::Admission(DynType());
  EXPECT_THAT(Eval("Object{}", validation, activation),
              HasSubstr("undeclared reference to 'Object'"));
  EXPECT_THAT(Eval("jsonpatch.escapeKey('a')", validation, activation),
              HasSubstr("undeclared reference"));
  EXPECT_THAT(Eval("cel.bind(x, 1, x == 1)", validation, activation), HasSubstr("compile"));
}

class OnlyGets final : public AccessBackend {
 public:
  [[nodiscard]] AccessDecision Check(const AccessQuery& query) const override {
    last = query;
    return AccessDecision{.allowed = query.verb == "get", .reason = "because", .error = {}};
  }
  mutable AccessQuery last;
};

TEST(Program, AsksTheAuthorizer) {
  const auto backend = std::make_shared<const OnlyGets>();
  const MapActivation activation{{"authorizer", MakeAuthorizer(backend)}};
  EXPECT_EQ(Eval("authorizer.group('batch').resource('jobs').subresource('status').namespace('n')."
                 "name('j').check('get').allowed()",
                 Env::Admission(),
                 activation),
            "true");
  EXPECT_EQ(backend->last.resource, "jobs");
  EXPECT_EQ(backend->last.subresource, "status");
  EXPECT_EQ(backend->last.ns, "n");
  EXPECT_EQ(
      Eval("authorizer.path('/healthz').check('post').allowed()", Env::Admission(), activation),
      "false");
  EXPECT_EQ(Eval("authorizer.serviceAccount('a', "
                 "'b').group('').resource('pods').check('get').reason() == 'because'",
                 Env::Admission(),
                 activation),
            "true");
  EXPECT_EQ(backend->last.service_account, "system:serviceaccount:a:b");
  // A third check is over the budget of one call.
  EXPECT_THAT(Eval("[1, 2, 3].all(i, authorizer.path('/x').check('get').allowed())",
                   Env::Admission(),
                   activation),
              HasSubstr("cost limit exceeded"));
}

TEST(Program, StopsWhenTheBudgetIsSpent) {
  const Env env = Env::CrdRule();
  const auto program =
      Program::Compile("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))", env);
  ASSERT_TRUE(program);
  std::int64_t budget = kPerCallBudget;
  const auto value = program->Run(MapActivation(), budget);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::kDenied);
  EXPECT_LT(budget, 0);
  // Nothing absorbs it.
  EXPECT_THAT(Eval("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0)) || true",
                   env,
                   MapActivation()),
              HasSubstr("cost limit"));
  EXPECT_THAT(Eval("[1].exists(z, lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0)))",
                   env,
                   MapActivation()),
              HasSubstr("cost limit"));
}

TEST(Program, SharesABudgetBetweenRuns) {
  const auto program = Program::Compile("self == self", Env::CrdRule());
  std::int64_t budget = 7;
  const MapActivation activation{{"self", Value::Int(1)}};
  EXPECT_TRUE(program->Run(activation, budget));
  EXPECT_EQ(budget, 4);
  EXPECT_TRUE(program->Run(activation, budget));
  EXPECT_FALSE(program->Run(activation, budget));
}

TEST(Program, BoundsDepthAndSize) {
  EXPECT_THAT(Eval(std::string(300, '(') + "true" + std::string(300, ')')),
              HasSubstr("recursion limit"));
  EXPECT_EQ(Eval(std::string(100, '(') + "true" + std::string(100, ')')), "true");
  std::string sum = "1";
  std::string logic = "true";
  for (int i = 0; i < 1000; ++i) {
    sum += " + 1";
    logic += " && true";
  }
  EXPECT_THAT(Eval(sum), HasSubstr("recursion limit"));
  EXPECT_EQ(Eval(logic), "true");
  EXPECT_THAT(Eval(std::string(kMaxExpressionBytes + 1, ' ')), HasSubstr("too long"));
  EXPECT_FALSE(Program::Compile(std::string(kMaxDeviceExpressionBytes + 1, ' '), Env::Device()));
  EXPECT_THAT(Eval(std::string(100'000, '[')), HasSubstr("recursion limit"));
  EXPECT_THAT(Eval("self" + std::string(50'000, '!')), HasSubstr("compile"));
}

// Expressions whose types, values or texts are exponentially larger than they are.
TEST(Program, IsNotFooledByThingsThatDouble) {
  std::string types;
  std::string values;
  std::string texts;
  std::string lists;
  std::string ends;
  types = "cel.bind(v0, {1: 1}, ";
  values = "cel.bind(v0, [1], ";
  texts = "cel.bind(v0, 'abcdefghij', ";
  lists = "cel.bind(v0, [1, 2], ";
  ends = ")";
  for (int i = 1; i < 60; ++i) {
    const std::string now = "v" + std::to_string(i);
    const std::string before = "v" + std::to_string(i - 1);
    types += "cel.bind(" + now + ", {1: {2: " + before + "}, 2: {3: " + before + "}}, ";
    values += "cel.bind(" + now + ", dyn([" + before + ", " + before + "]), ";
    texts += "cel.bind(" + now + ", " + before + " + " + before + ", ";
    lists += "cel.bind(" + now + ", " + before + " + " + before + ", ";
    ends += ")";
  }
  Env env = Env::Device();
  for (const std::string& text : {types + "v59 == v59" + ends,
                                  values + "v59 == v59" + ends,
                                  texts + "v59.size() > 0" + ends,
                                  lists + "v59.size() > 0" + ends,
                                  values + "[v59].distinct().size() == 1 && v59 in [v59]" + ends,
                                  values + "'%s'.format([v59]) == ''" + ends}) {
    const auto program = Program::Compile(text, env);
    if (program) {
      DeviceInfo device;
      std::int64_t budget = kPerCallBudget;
      EXPECT_FALSE(MatchDevice(*program, device, budget)) << text.substr(0, 80);
    }
  }
  std::string keys = "cel.bind(v0, 1, ";
  for (int i = 1; i < 40; ++i) {
    keys += "cel.bind(v" + std::to_string(i) + ", {v" + std::to_string(i - 1) + ": v" +
            std::to_string(i - 1) + "}, ";
  }
  EXPECT_FALSE(Program::Compile(keys + "v39 == v39" + std::string(40, ')'), env));
}

TEST(Program, WalksMapsInTheOrderOfTheirKeys) {
  EXPECT_EQ(Eval("{'b': 1, 'a': 2, 'c': 3}.map(k, k)"), R"(["a", "b", "c"])");
  EXPECT_EQ(Eval("{'b': 1, 'a': 2}.transformList(k, v, v)"), "[2, 1]");
}

TEST(Program, FixesTheLastOfEqualKeys) {
  EXPECT_EQ(Eval("{'a': 1, 'b': 2, 'a': 3}"), R"({"a": 3, "b": 2})");
}

TEST(Device, TellsTheWholeAttemptAboutABadAttribute) {
  DeviceInfo device;
  device.driver_name = "d";
  device.attributes = {{"x", std::unexpected(Error::Invalid("unsupported attribute value"))}};
  const auto program = Program::Compile("true", Env::Device());
  std::int64_t budget = 1000;
  const auto match = MatchDevice(*program, device, budget);
  ASSERT_FALSE(match);
  EXPECT_EQ(match.error().message, "attribute x: unsupported attribute value");
}

}  // namespace
}  // namespace muster::cel
