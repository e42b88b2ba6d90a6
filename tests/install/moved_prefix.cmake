# cmake -DBUILD_DIR= -DSCRATCH= -DVERSION= -P moved_prefix.cmake
#
# The prefix is moved after the install, so that a path that should have been relative shows.
include(${CMAKE_CURRENT_LIST_DIR}/run_step.cmake)

file(REMOVE_RECURSE ${SCRATCH})
run_step("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/staged)
file(RENAME ${SCRATCH}/staged ${SCRATCH}/prefix)

# What is installed is the public surface: nothing of src/, nothing of the tests, no layer.
file(GLOB_RECURSE headers RELATIVE ${SCRATCH}/prefix/include ${SCRATCH}/prefix/include/*)
list(FILTER headers EXCLUDE REGEX "^stoker/[a-z_]+\\.h$")
if(headers)
  message(FATAL_ERROR "installed, but no public header: ${headers}")
endif()
if(NOT EXISTS ${SCRATCH}/prefix/include/stoker/version.h)
  message(FATAL_ERROR "stoker/version.h was not installed")
endif()
# The command's own pages and completion, and what a store of one's own is tested with.
set(share man/man1/stoker.1 man/man1/stoker-pack.1 bash-completion/completions/stoker zsh/site-functions/_stoker
  stoker/conformance/object_store_suite.h stoker/conformance/support/in_child.h
  stoker/conformance/support/temp_dir.h)
foreach(name IN LISTS share)
  if(NOT EXISTS ${SCRATCH}/prefix/share/${name})
    message(FATAL_ERROR "share/${name} was not installed")
  endif()
endforeach()
file(GLOB_RECURSE libraries RELATIVE ${SCRATCH}/prefix/lib ${SCRATCH}/prefix/lib/libstoker*)
list(SORT libraries)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor ${VERSION})
set(wanted libstoker.a libstoker.so libstoker.so.${minor} libstoker.so.${VERSION})
if(NOT libraries STREQUAL wanted)
  message(FATAL_ERROR "installed: ${libraries}; wanted: ${wanted}")
endif()
