# What we stand on, found where the system keeps it (design: docs/architecture.md). Nothing is
# downloaded. A missing package stops the configure step with the name apt knows it by.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
option(STOKER_STATIC_DEPENDENCIES
  "For wheels: link the position-independent static libraries that the system has" OFF)

function(stoker_need target pkg_config_name debian_package)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET GLOBAL ${pkg_config_name})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "${pkg_config_name} is missing: apt-get install ${debian_package}")
  endif()
  set_property(GLOBAL APPEND PROPERTY STOKER_DEBIAN_PACKAGES ${debian_package})
endfunction()

stoker_need(URING liburing liburing-dev)
stoker_need(XXHASH libxxhash libxxhash-dev)
stoker_need(ISAL libisal libisal-dev)
stoker_need(CRYPTO libcrypto libssl-dev)
stoker_need(ZSTD libzstd libzstd-dev)
stoker_need(ZLIB zlib zlib1g-dev)
stoker_need(CURL libcurl libcurl4-openssl-dev)

# What only some datasets need: without it such a dataset is refused, and the error names the library.
function(stoker_want found target definition debian_package)
  if(found)
    set_property(GLOBAL APPEND PROPERTY STOKER_DEBIAN_PACKAGES ${debian_package})
    list(APPEND STOKER_OPTIONAL_LIBRARIES ${target})
    list(APPEND STOKER_OPTIONAL_DEFINITIONS ${definition})
    set(STOKER_OPTIONAL_LIBRARIES ${STOKER_OPTIONAL_LIBRARIES} PARENT_SCOPE)
    set(STOKER_OPTIONAL_DEFINITIONS ${STOKER_OPTIONAL_DEFINITIONS} PARENT_SCOPE)
  else()
    message(STATUS "${debian_package} is missing: MDS shards compressed with it will not be read")
  endif()
endfunction()

pkg_check_modules(BROTLI QUIET IMPORTED_TARGET GLOBAL libbrotlidec)
find_package(BZip2 QUIET)  # Debian has no bzip2.pc
pkg_check_modules(SNAPPY QUIET IMPORTED_TARGET GLOBAL snappy)
stoker_want("${BROTLI_FOUND}" PkgConfig::BROTLI STOKER_HAVE_BROTLI libbrotli-dev)
stoker_want("${BZIP2_FOUND}" BZip2::BZip2 STOKER_HAVE_BZIP2 libbz2-dev)
stoker_want("${SNAPPY_FOUND}" PkgConfig::SNAPPY STOKER_HAVE_SNAPPY libsnappy-dev)

# Links the static libraries of an imported target, if all of them exist and can be part of a module.
function(stoker_prefer_static target)
  set(archives "")
  foreach(name IN LISTS ARGN)
    if(NOT name MATCHES "^(dl|m|pthread)$")
      find_library(STOKER_ARCHIVE_${name} lib${name}.a NO_CACHE)
      list(APPEND archives ${STOKER_ARCHIVE_${name}})
    endif()
  endforeach()
  execute_process(RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET
    COMMAND ${CMAKE_CXX_COMPILER} -shared -o ${CMAKE_BINARY_DIR}/position_independent.so
      -Wl,-z,text,--whole-archive ${archives} -Wl,--no-whole-archive)
  if(failed)
    message(STATUS "${target}: shared, for want of position-independent static libraries")
    return()
  endif()
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
  if(target STREQUAL BZip2::BZip2)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${archives}
      IMPORTED_LOCATION_RELEASE ${archives} INTERFACE_LINK_LIBRARIES "")
  endif()
endfunction()
if(STOKER_STATIC_DEPENDENCIES)
  # Not xxHash: in Debian the static library lacks what selects the CPU's instructions (src/base).
  # Not libcurl: that of Debian needs the static libraries of LDAP, Kerberos and others. Nor what comes
  # with the shared one anyway: there is one libcrypto in a wheel.
  foreach(name URING ISAL ZLIB SNAPPY)
    if(${name}_FOUND)
      stoker_prefer_static(PkgConfig::${name} ${${name}_STATIC_LIBRARIES})
    endif()
  endforeach()
  if(BZIP2_FOUND)
    stoker_prefer_static(BZip2::BZip2 bz2)
  endif()
  # Their names are no business of the process that loads the module.
  add_link_options(LINKER:--exclude-libs,ALL)
endif()

# Sets OUT to the Debian packages of the shared libraries that LIBRARY needs. None where there is no
# dpkg: there, whoever makes a wheel collects the terms.
function(stoker_packages_below out library)
  set(packages "")
  execute_process(COMMAND ldd ${library} OUTPUT_VARIABLE needed ERROR_QUIET)
  string(REGEX MATCHALL "lib[^ \t\n/]+[.]so[.0-9]*" names "${needed}")
  foreach(name IN LISTS names)
    execute_process(COMMAND dpkg-query --search "*/${name}" OUTPUT_VARIABLE found ERROR_QUIET)
    if(found MATCHES "^([^:,]+)")
      list(APPEND packages ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES packages)
  list(REMOVE_ITEM packages libc6)
  set(${out} ${packages} PARENT_SCOPE)
endfunction()

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(STOKER_CLI)
  find_package(CLI11 REQUIRED)
endif()
if(STOKER_DEVELOPER_MODE)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  include(GoogleTest)
endif()
