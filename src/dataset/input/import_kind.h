/// \file
/// Recognizes the files of other systems, which `stoker pack` reads with Python packages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stoker {

/// Returns all kinds that Python packages read: those of import_kind_of(), "hf" (a folder of
/// Hugging Face's) and "text", which must be named.
std::span<const std::string_view> import_kinds() noexcept;

/// Returns "parquet", "petastorm", "arrow", "hdf5" or "lmdb" if `path` is a file or a folder of
/// that kind, judged by names and first bytes; empty if it is none of them or cannot be read.
///
///     parquet    a file that begins with "PAR1"; a folder or tree of *.parquet, *.pq
///     petastorm  such a folder with Petastorm's schema in its _common_metadata
///     arrow      a file that begins with "ARROW1", or *.arrow; a folder of *.arrow, or one
///                with Hugging Face's dataset_dict.json
///     hdf5       a file with HDF5's signature
///     lmdb       a folder with data.mdb, or a file of that name
///
/// A folder with shards of samples in it is none of them: img2dataset stores tables beside its
/// tars.
std::string import_kind_of(const std::string& path);

}  // namespace stoker
