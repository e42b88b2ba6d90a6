#include <iostream>

#include "stoker/plan.h"
#include "stoker/probe.h"
#include "stoker/version.h"

int main(int argc, char** argv) {
  const stoker::Result<stoker::StorageProbe> found = stoker::probe(argc > 1 ? argv[1] : ".");
  if (!found.ok()) {
    std::cerr << found.status().message() << '\n';
    return 1;
  }
  const auto need = stoker::plan::read({.gpus = 8,
                                        .batch = 256,
                                        .sample = stoker::plan::Bytes{130e3},
                                        .step = stoker::plan::Seconds{0.2}});
  if (!need.ok() || need->find<stoker::plan::BytesPerSecond>("needed")->count() != 1.3312e9) {
    std::cerr << "a plan is wrong\n";
    return 1;
  }
  std::cout << "stoker " << stoker::kVersion << ", engine " << found->engine << '\n';
  return 0;
}
