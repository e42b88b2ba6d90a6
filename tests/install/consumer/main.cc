#include <iostream>

#include "stoker/probe.h"
#include "stoker/version.h"

int main(int argc, char** argv) {
  const stoker::Result<stoker::StorageProbe> found = stoker::probe(argc > 1 ? argv[1] : ".");
  if (!found.ok()) {
    std::cerr << found.status().message() << '\n';
    return 1;
  }
  std::cout << "stoker " << stoker::kVersion << ", engine " << found->engine << '\n';
  return 0;
}
