# stoker::build_info: base/build_info.h, for `stoker --version` and stoker.build_info().
set(STOKER_REVISION "" CACHE STRING "Revision to record, if the source is not in a git repository")

set(STOKER_LIBRARY_ROWS "")
function(stoker_library_version name version)
  if(NOT version)
    set(version unknown)
  endif()
  set(STOKER_LIBRARY_ROWS "${STOKER_LIBRARY_ROWS}    {\"${name}\", \"${version}\"},\n" PARENT_SCOPE)
endfunction()
stoker_library_version(liburing "${URING_VERSION}")
stoker_library_version(xxHash "${XXHASH_VERSION}")
stoker_library_version(ISA-L "${ISAL_VERSION}")
stoker_library_version(OpenSSL "${CRYPTO_VERSION}")
stoker_library_version(zstd "${ZSTD_VERSION}")
stoker_library_version(zlib "${ZLIB_VERSION}")
stoker_library_version(libcurl "${CURL_VERSION}")
if(BROTLI_FOUND)
  stoker_library_version(brotli "${BROTLI_VERSION}")
endif()
if(BZIP2_FOUND)
  stoker_library_version(bzip2 "${BZIP2_VERSION_STRING}")
endif()
if(SNAPPY_FOUND)
  stoker_library_version(snappy "${SNAPPY_VERSION}")
endif()
stoker_library_version(fmt "${fmt_VERSION}")
stoker_library_version(nlohmann-json "${nlohmann_json_VERSION}")

set(STOKER_BUILD_INFO ${PROJECT_BINARY_DIR}/build_info)
file(CONFIGURE OUTPUT ${STOKER_BUILD_INFO}/values.cmake @ONLY CONTENT [[
set(STOKER_LIBRARY_ROWS [==[@STOKER_LIBRARY_ROWS@]==])
set(STOKER_COMPILER "@CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@")
set(STOKER_PLATFORM "@CMAKE_SYSTEM_NAME@ @CMAKE_SYSTEM_PROCESSOR@")
]])
add_custom_target(stoker_write_build_info
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DREVISION=${STOKER_REVISION}
    -DTEMPLATE=${CMAKE_CURRENT_LIST_DIR}/build_info.cc.in -DVALUES=${STOKER_BUILD_INFO}/values.cmake
    -DOUTPUT=${STOKER_BUILD_INFO}/build_info.cc
    -P ${CMAKE_CURRENT_LIST_DIR}/write_build_info.cmake
  BYPRODUCTS ${STOKER_BUILD_INFO}/build_info.cc VERBATIM
  COMMENT "Looking up the revision")
add_library(stoker_build_info STATIC ${STOKER_BUILD_INFO}/build_info.cc)
add_library(stoker::build_info ALIAS stoker_build_info)
add_dependencies(stoker_build_info stoker_write_build_info)
target_include_directories(stoker_build_info PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
set_target_properties(stoker_build_info PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_CLANG_TIDY "")
