#include "session/manager/cell_workers.h"

#include "authority/terms.h"
#include "session/python/python_facts.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace glovebox::session {
namespace {

PythonPlan plan_with(std::initializer_list<std::string_view> terms) {
  std::vector<authority::Capability> capabilities;
  for (const std::string_view term : terms) {
    capabilities.push_back(authority::parse_term(term).value());
  }
  PythonPlan plan;
  plan.authority = authority::AuthoritySet::granting(capabilities).value();
  return plan;
}

TEST(CellKey, IsTheSameForTheSameAuthorityAlone) {
  const std::string own = cell_key("box", plan_with({"import=json", "import=math"}));
  EXPECT_EQ(own, cell_key("box", plan_with({"import=math", "import=json"})));
  EXPECT_NE(own, cell_key("another", plan_with({"import=json", "import=math"})));
  EXPECT_NE(own, cell_key("box", plan_with({"import=json"})));
  EXPECT_NE(own, cell_key("box", plan_with({"import=json", "import=math", "clock"})));
}

TEST(CellWorkers, AWorkerOnItsWayIsForItsOwnerAndKeyAlone) {
  CellWorkers workers;
  auto worker = std::make_shared<CellWorker>();
  worker->key = "key";
  worker->owner = "owner";
  workers.add(worker);
  EXPECT_EQ(workers.find("key", "owner"), worker);
  EXPECT_EQ(workers.find("key", "another"), nullptr);
  EXPECT_EQ(workers.find("another", "owner"), nullptr);
  workers.remove(worker);
  EXPECT_EQ(workers.find("key", "owner"), nullptr);
}

TEST(CellWorkers, AWorkerWithoutAKeyIsForNoOtherCell) {
  CellWorkers workers;
  workers.add(std::make_shared<CellWorker>());
  EXPECT_EQ(workers.find("", ""), nullptr);
}

TEST(PythonFacts, CellsShareAWorkerFromThreeTwelveOn) {
  EXPECT_EQ(python_facts("/usr/bin/python3.11").cells_per_worker(), 1);
  EXPECT_EQ(python_facts("/usr/bin/python3.12").cells_per_worker(), 1000);
  EXPECT_EQ(python_facts("/opt/x/bin/python3.20").cells_per_worker(), 1000);
  for (const char* unknown : {"/usr/bin/python3", "/usr/bin/pypy3.12", "/x/python3.12t",
                              "/x/python3.", "/x/python3.-1", ""}) {
    EXPECT_EQ(python_facts(unknown).cells_per_worker(), 1) << unknown;
  }
}

}  // namespace
}  // namespace glovebox::session
