// What planning adds to a start: a request with fifty rules beside one without any, and looking
// the paths of those rules up on this host.
#include "authority/terms.h"
#include "host/facts.h"
#include "host/resolve_authority.h"
#include "plan/make_plan.h"
#include "support/google.h"
#include "support/measure.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

namespace glovebox::plan {
namespace {

constexpr int kRules = 50;

// A tree with a directory for each rule, removed at the end.
class Ground {
 public:
  Ground() : path_(fmt::format("/tmp/glovebox-bench-{}", ::getpid())) {
    for (int i = 0; i < kRules; ++i) std::filesystem::create_directories(directory(i));
  }
  ~Ground() { std::filesystem::remove_all(path_); }
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  // A policy as people write them: grants of trees, with denials inside some, and limits.
  authority::AuthoritySet rules() const {
    std::vector<authority::Rule> rules;
    for (int i = 0; i < kRules - 4; ++i) {
      const bool denied = i % 4 == 3;
      const char* kind = i % 2 == 0 ? "read" : "write";
      rules.push_back({denied ? authority::Effect::Deny : authority::Effect::Allow,
                       *authority::parse_term(fmt::format("{}={}", kind, directory(i)))});
    }
    for (const char* term : {"memory=256MiB", "pids=64", "env=LANG", "wall=30s"}) {
      rules.push_back({authority::Effect::Allow, *authority::parse_term(term)});
    }
    return *authority::AuthoritySet::from_rules(rules);
  }

 private:
  std::string directory(int i) const {
    return i % 4 == 3 ? fmt::format("{}/tree-{}/private", path_, i - 1)
                      : fmt::format("{}/tree-{}", path_, i);
  }
  std::string path_;
};

void plan_request(benchmark::State& state, const authority::AuthoritySet& set) {
  const auto facts = host::read_facts();
  auto resolved = host::resolve_paths(set);
  if (!facts || !resolved) return state.SkipWithError("the request cannot be prepared");
  SandboxSpec spec;
  spec.command = {"true"};
  spec.authority = resolved->set;
  spec.paths = resolved->paths;
  for (auto _ : state) {
    auto plan = make_plan(spec, *facts);
    if (!plan) state.SkipWithError(plan.error().message.c_str());
    benchmark::DoNotOptimize(plan);
  }
}

void plan_without_rules(benchmark::State& state) { plan_request(state, {}); }
BENCHMARK(plan_without_rules)->Unit(benchmark::kMicrosecond);

void plan_fifty_rules(benchmark::State& state) {
  const Ground ground;
  plan_request(state, ground.rules());
}
BENCHMARK(plan_fifty_rules)->Unit(benchmark::kMicrosecond);

void resolve_fifty_rules(benchmark::State& state) {
  const Ground ground;
  const authority::AuthoritySet set = ground.rules();
  for (auto _ : state) {
    auto resolved = host::resolve_paths(set);
    if (!resolved) state.SkipWithError("the paths cannot be resolved");
    benchmark::DoNotOptimize(resolved);
  }
}
BENCHMARK(resolve_fifty_rules)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace glovebox::plan

int main(int argc, char** argv) {
  using namespace glovebox::bench;
  auto us = run_google_benchmarks(argc, argv);
  print_figure("what planning 50 rules adds to a start",
               us["plan_fifty_rules"] - us["plan_without_rules"], "us", at_most(100));
  print_figure("looking the paths of 50 rules up", us["resolve_fifty_rules"], "us");
}
