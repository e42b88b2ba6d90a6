#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/restore/reader.h"
#include "checkpoint_arguments.h"
#include "raise.h"

namespace stoker::python {

/// A reader as Python holds it; null if it was lent for a call that has ended.
struct OpenCheckpoint {
  std::shared_ptr<const CheckpointReader> reader;
};

inline const CheckpointReader& reader_of(const OpenCheckpoint& self) {
  if (self.reader == nullptr) throw nanobind::value_error("this checkpoint is not open any more");
  return *self.reader;
}

inline const CheckpointManifest& manifest_of(const OpenCheckpoint& self) {
  return reader_of(self).manifest();
}

/// Raises a failure; a CorruptError gets the path of the file that the message names.
inline void raise_if_damaged(const Status& status, const std::string& directory) {
  const std::optional<CorruptPlace> place = place_under(directory, status.message());
  raise_if_failed(status, place ? &*place : nullptr);
}

inline CheckpointDirectory open_directory(const nanobind::bytes& directory,
                                          FileOps& ops = posix_file_ops()) {
  const std::string path = path_of(directory);
  return value_or_raise(without_gil([&] { return CheckpointDirectory::open(ops, path); }));
}

}  // namespace stoker::python
