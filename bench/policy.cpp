// The numbers of policies: compiling a document of a thousand rules, comparing two sets of a
// thousand grants, and what a lookup and a digest cost.
#include "policy/policy.h"

#include "authority/authority_set.h"
#include "authority/terms.h"
#include "policy/compile.h"
#include "policy/print.h"
#include "support/google.h"
#include "support/measure.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <vector>

namespace glovebox::policy {
namespace {

// A thousand rules as people write them: paths, hosts and modules, with denials among them.
std::string thousand_rules() {
  std::string text = "version: 1\nfs:\n  read:\n";
  for (int i = 0; i < 400; ++i) text += fmt::format("    - /srv/data/project-{}/input\n", i);
  text += "  deny:\n";
  for (int i = 0; i < 100; ++i)
    text += fmt::format("    - /srv/data/project-{}/input/private\n", i);
  text += "net:\n  connect:\n";
  for (int i = 0; i < 300; ++i) text += fmt::format("    - \"host-{}.example.com:443\"\n", i);
  text += "imports:\n";
  for (int i = 0; i < 200; ++i) text += fmt::format("  - package_{}.module\n", i);
  return text;
}

authority::AuthoritySet thousand_grants(int offset) {
  std::vector<authority::Capability> grants;
  for (int i = 0; i < 500; ++i) {
    grants.push_back(*authority::parse_term(fmt::format("read=/srv/data/{}/file", i + offset)));
    grants.push_back(
        *authority::parse_term(fmt::format("connect=host-{}.example.com:443", i + offset)));
  }
  return *authority::AuthoritySet::granting(grants);
}

void compile_thousand_rules(benchmark::State& state) {
  const std::string text = thousand_rules();
  for (auto _ : state) {
    auto file = compile(text, "bench.yaml");
    if (!file) state.SkipWithError("the document does not compile");
    benchmark::DoNotOptimize(file);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
BENCHMARK(compile_thousand_rules)->Unit(benchmark::kMillisecond);

void compile_thousand_rules_with_patterns(benchmark::State& state) {
  std::string text = thousand_rules();
  text += "waive: []\nchannels: []\n";
  std::string patterns = "  exec:\n";
  for (int i = 0; i < 50; ++i) patterns += fmt::format("    - \"/srv/data/*/bin-{}/**/*.so\"\n", i);
  text.insert(text.find("net:"), patterns);
  for (auto _ : state) {
    auto file = compile(text, "bench.yaml");
    if (!file) state.SkipWithError("the document does not compile");
    benchmark::DoNotOptimize(file);
  }
}
BENCHMARK(compile_thousand_rules_with_patterns)->Unit(benchmark::kMillisecond);

void covers_of_thousand_grants(benchmark::State& state) {
  const authority::AuthoritySet left = thousand_grants(0);
  const authority::AuthoritySet right = thousand_grants(0);
  for (auto _ : state) {
    bool covers = left.covers(right);
    if (!covers) state.SkipWithError("equal sets cover each other");
    benchmark::DoNotOptimize(covers);
  }
}
BENCHMARK(covers_of_thousand_grants)->Unit(benchmark::kMicrosecond);

void minus_of_thousand_grants(benchmark::State& state) {
  const authority::AuthoritySet left = thousand_grants(0);
  const authority::AuthoritySet right = thousand_grants(250);
  for (auto _ : state) benchmark::DoNotOptimize(left.minus(right));
}
BENCHMARK(minus_of_thousand_grants)->Unit(benchmark::kMicrosecond);

void decide_one_path(benchmark::State& state) {
  const auto file = compile(thousand_rules(), "bench.yaml");
  const auto question = authority::parse_term("read=/srv/data/project-250/input/deep/file");
  for (auto _ : state) benchmark::DoNotOptimize(decide(file->sandboxes.front().policy, *question));
}
BENCHMARK(decide_one_path)->Unit(benchmark::kMicrosecond);

void digest_of_thousand_rules(benchmark::State& state) {
  const auto file = compile(thousand_rules(), "bench.yaml");
  for (auto _ : state) benchmark::DoNotOptimize(digest(file->sandboxes.front().policy));
}
BENCHMARK(digest_of_thousand_rules)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace glovebox::policy

int main(int argc, char** argv) {
  using namespace glovebox::bench;
  auto us = run_google_benchmarks(argc, argv);
  print_figure("compile of a policy of 1,000 rules", us["compile_thousand_rules"] / 1000, "ms",
               at_most(20));
  print_figure("covers() of two sets of 1,000 grants", us["covers_of_thousand_grants"] / 1000, "ms",
               at_most(1));
  print_figure("one path decided by 1,000 rules", us["decide_one_path"], "us");
}
