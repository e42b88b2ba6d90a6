# What nearly every source includes, parsed once; a fifth of the time that a build takes. In release
# builds alone: in the others, which lint and the sanitizers use, a source that forgets an include
# does not compile.
set(STOKER_STD_HEADERS <algorithm> <array> <atomic> <chrono> <condition_variable> <cstdint> <cstring>
  <filesystem> <functional> <map> <memory> <mutex> <optional> <span> <stop_token> <string> <string_view>
  <thread> <utility> <variant> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The first is for ccache. GCC 12 warns of its own std::string where that is precompiled.
  set(STOKER_PCH_OPTIONS -fpch-preprocess -Wno-stringop-overflow)
endif()
# Lets ccache tell precompiled headers of two build folders, whose bytes differ, for the same: what
# they are made from (CCACHE_PCH_EXTSUM in the Makefile).
function(stoker_describe_headers target)
  file(CONFIGURE OUTPUT CMakeFiles/${target}.dir/cmake_pch.hxx.gch.sum CONTENT
    "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${STOKER_STD_HEADERS} ${ARGN}")
endfunction()
if(CMAKE_BUILD_TYPE STREQUAL Release)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/std_headers.cc CONTENT "")
  add_library(stoker_std_headers OBJECT ${CMAKE_BINARY_DIR}/std_headers.cc)
  set_target_properties(stoker_std_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(stoker_std_headers PRIVATE ${STOKER_PCH_OPTIONS})
  target_precompile_headers(stoker_std_headers PRIVATE ${STOKER_STD_HEADERS})
  stoker_describe_headers(stoker_std_headers)
endif()

# stoker_precompile(<target> header...): the same for a target whose options are its own.
function(stoker_precompile target)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${target} PRIVATE ${STOKER_PCH_OPTIONS})
    target_precompile_headers(${target} PRIVATE ${STOKER_STD_HEADERS} ${ARGN})
    stoker_describe_headers(${target} ${ARGN} ${Python_VERSION} ${nanobind_VERSION})
  endif()
endfunction()

# A build from nothing takes half the time if eight sources are compiled as one, and clang-tidy a fifth. Not in the
# preset dev, where one source changes at a time. Tests in release builds, which are hardly optimized, are joined by 24:
# seventeen take 7.5 CPU-seconds then, and 10.7 by eight. With sanitizers that would take too much memory.
if(CMAKE_BUILD_TYPE STREQUAL Release OR STOKER_SANITIZE)
  set(STOKER_JOINED_DEFAULT ON)
else()
  set(STOKER_JOINED_DEFAULT OFF)
endif()
option(STOKER_JOIN_SOURCES
  "Compile several sources of a target as one: their anonymous namespaces are then one as well"
  ${STOKER_JOINED_DEFAULT})
function(stoker_join_sources target)
  get_target_property(options ${target} COMPILE_OPTIONS)
  set(count 8)
  if(CMAKE_BUILD_TYPE STREQUAL Release AND "-Og" IN_LIST options)
    set(count 24)
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${STOKER_JOIN_SOURCES} UNITY_BUILD_BATCH_SIZE ${count})
  if(STOKER_JOIN_SOURCES AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Their anonymous namespaces are then in files that another one includes.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
# Sources whose own names are also those of another source, and which are therefore compiled alone.
function(stoker_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# stoker_layer(<name> [PUBLIC_HEADERS h...] SOURCES s... [DEPS layer...] [LIBRARIES target...])
#
# One architectural layer. DEPS is the whole list of layers it may include, the same list that
# layers.toml grants (tools/check_layers.py compares the two). LIBRARIES are third-party targets:
# they stay private, because public headers name no third-party type.
function(stoker_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "PUBLIC_HEADERS;SOURCES;DEPS;LIBRARIES")
  add_library(stoker_${name} STATIC ${arg_SOURCES})
  add_library(stoker::${name} ALIAS stoker_${name})
  target_sources(stoker_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_PUBLIC_HEADERS})
  target_include_directories(stoker_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(stoker_${name} PUBLIC cxx_std_20)
  set_target_properties(stoker_${name} PROPERTIES
    POSITION_INDEPENDENT_CODE ON VERIFY_INTERFACE_HEADER_SETS ON)
  list(TRANSFORM arg_DEPS PREPEND stoker::)
  target_link_libraries(stoker_${name} PUBLIC ${arg_DEPS}
    PRIVATE ${arg_LIBRARIES} stoker::warnings)
  if(TARGET stoker_std_headers)
    target_compile_options(stoker_${name} PRIVATE ${STOKER_PCH_OPTIONS})
    target_precompile_headers(stoker_${name} REUSE_FROM stoker_std_headers)
  endif()
  stoker_join_sources(stoker_${name})
  if(CMAKE_CXX_CLANG_TIDY AND STOKER_JOIN_SOURCES)
    # Each source alone as well, so that one that forgets an include does not compile.
    add_library(stoker_${name}_alone OBJECT ${arg_SOURCES})
    target_include_directories(stoker_${name}_alone PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(stoker_${name}_alone PRIVATE ${arg_DEPS} ${arg_LIBRARIES} stoker::warnings)
    set_target_properties(stoker_${name}_alone PROPERTIES CXX_CLANG_TIDY "")
  endif()
  set_property(GLOBAL APPEND PROPERTY STOKER_LAYERS stoker_${name})
  # For cmake/StokerLibrary.cmake.
  set_target_properties(stoker_${name} PROPERTIES
    STOKER_PUBLIC_HEADERS "${arg_PUBLIC_HEADERS}" STOKER_LIBRARIES "${arg_LIBRARIES}")
endfunction()

# stoker_test(<name> LABEL <kind> SOURCES s... LAYERS layer... [LIBRARIES target...] [TIMEOUT s]
#             [FIXTURES f...])
#
# One GoogleTest program; each test in it becomes a ctest of its own, with one label. A test has five
# minutes unless TIMEOUT gives it more. FIXTURES are the servers of tests/servers that it needs: ctest
# starts and stops them.
function(stoker_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT" "SOURCES;LAYERS;LIBRARIES;FIXTURES")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  list(TRANSFORM arg_LAYERS PREPEND stoker::)
  target_link_libraries(${name} PRIVATE ${arg_LAYERS} ${arg_LIBRARIES} stoker::warnings GTest::gtest_main)
  if(TARGET stoker_test_headers)
    # What it tests is optimized. -Og takes no longer to compile than -O0, and megabytes are compared many times faster.
    # Warnings are errors here, too: see CMakeLists.txt. GCC 12 finds one too many in its own std::stop_token at -Og.
    target_compile_options(${name} PRIVATE -Og -fpch-preprocess -Wall -Wextra -Wconversion -Wshadow -Werror
      -Wno-maybe-uninitialized)
    target_precompile_headers(${name} REUSE_FROM stoker_test_headers)
  endif()
  stoker_join_sources(${name})
  set_target_properties(${name} PROPERTIES CXX_CLANG_TIDY "")  # .clang-tidy says why
  set(fixtures "")
  if(arg_FIXTURES)
    list(JOIN arg_FIXTURES "\\;" fixtures)
    set(fixtures FIXTURES_REQUIRED "${fixtures}")
    target_compile_definitions(${name} PRIVATE STOKER_TEST_SERVERS="${PROJECT_BINARY_DIR}/servers")
  endif()
  # Programs with long tests come first, so that no core is idle at the end.
  gtest_discover_tests(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
    ${fixtures}
    DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST)
endfunction()
