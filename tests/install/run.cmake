# cmake -DBUILD_DIR= -DSCRATCH= -DCXX= -DGENERATOR= -DBUILD_TYPE= -DVERSION= -P run.cmake
#
# The prefix is moved after the install, so that a path that should have been relative shows.
function(run_step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(failed)
    message(FATAL_ERROR "${what} failed (${failed}):\n${out}")
  endif()
  set(OUT "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run_step("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SCRATCH}/staged)
file(RENAME ${SCRATCH}/staged ${SCRATCH}/prefix)

# What is installed is the public surface: nothing of src/, nothing of the tests.
file(GLOB_RECURSE headers RELATIVE ${SCRATCH}/prefix/include ${SCRATCH}/prefix/include/*)
list(FILTER headers EXCLUDE REGEX "^stoker/[a-z_]+\\.h$")
if(headers)
  message(FATAL_ERROR "installed, but no public header: ${headers}")
endif()
if(NOT EXISTS ${SCRATCH}/prefix/include/stoker/version.h)
  message(FATAL_ERROR "stoker/version.h was not installed")
endif()

run_step("configure" ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/build
  -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
  -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -Dwanted_version=${VERSION})
run_step("build" ${CMAKE_COMMAND} --build ${SCRATCH}/build)
run_step("consumer" ${SCRATCH}/build/consumer ${SCRATCH})
if(NOT OUT MATCHES "stoker ${VERSION}.*engine")
  message(FATAL_ERROR "the consumer said something else:\n${OUT}")
endif()
message(STATUS "${OUT}")
