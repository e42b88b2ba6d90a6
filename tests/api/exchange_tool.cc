/// \file
/// exchange_tool FROM TO: restores everything from one directory of checkpoints, and saves it into
/// another. A test compares what Python has saved in the one with what it restores from the other.
#include <cstdio>
#include <string>

#include "stoker/checkpoint.h"

namespace {

stoker::Status exchange(const std::string& from, const std::string& to) {
  STOKER_ASSIGN(const stoker::Checkpoint opened, stoker::Checkpoint::open(from));
  STOKER_ASSIGN(const stoker::Tree saved, opened.trees());
  stoker::Tree trees = stoker::Tree::map();
  for (const stoker::Tree::Field& field : saved.fields()) trees[field.name] = nullptr;
  STOKER_ASSIGN(const auto source, stoker::Checkpointer::open({.directory = from}));
  STOKER_ASSIGN(const auto done, source->restore(trees));
  STOKER_ASSIGN(const auto target, stoker::Checkpointer::open({.directory = to}));
  STOKER_ASSIGN(
      const stoker::PendingSave pending,
      target->save(done->step, trees,
                   {.cursor = done->cursor, .reference = done->reference, .extra = done->extra}));
  STOKER_TRY(pending.wait());
  return target->close();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const stoker::Status status = exchange(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
