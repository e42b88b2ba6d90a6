/// \file
/// The formats that format_tool knows by name: one row each. A format whose reader or writer wants
/// more than bytes (columns, a sidecar, a dtype) finds it in the arguments of its makers.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include "formats/shard_format.h"
#include "formats/tfrecord/tfrecord.h"
#include "formats/webdataset/webdataset_reader.h"
#include "formats/webdataset/webdataset_writer.h"

namespace stoker::testing {

struct FormatRow {
  const char* name;
  /// `shard_path` for formats that keep something beside the shard; the tool reads the shard.
  Result<std::unique_ptr<ShardReader>> (*make_reader)(const std::string& shard_path);
  /// `samples` are all that will be appended, for formats that declare columns. `sink` outlives the
  /// writer.
  Result<std::unique_ptr<ShardWriter>> (*make_writer)(ByteSink& sink,
                                                      std::span<const SampleView> samples);
};

inline Result<std::unique_ptr<ShardReader>> make_tar_row_reader(const std::string&) {
  return make_webdataset_reader();
}
inline Result<std::unique_ptr<ShardWriter>> make_tar_row_writer(ByteSink& sink,
                                                                std::span<const SampleView>) {
  return make_webdataset_writer(sink);
}

template <bool raw>
Result<std::unique_ptr<ShardReader>> make_tfrecord_row_reader(const std::string&) {
  return make_tfrecord_reader({.raw = raw});
}
template <bool raw>
Result<std::unique_ptr<ShardWriter>> make_tfrecord_row_writer(ByteSink& sink,
                                                              std::span<const SampleView>) {
  return make_tfrecord_writer(sink, {.raw = raw});
}

inline constexpr std::array kFormatsTable = {
    FormatRow{"tar", make_tar_row_reader, make_tar_row_writer},
    FormatRow{"tfrecord", make_tfrecord_row_reader<false>, make_tfrecord_row_writer<false>},
    FormatRow{"tfrecord-raw", make_tfrecord_row_reader<true>, make_tfrecord_row_writer<true>},
};

}  // namespace stoker::testing
