# cmake -DSOURCE_DIR= -DREVISION= -DTEMPLATE= -DOUTPUT= -DVALUES= -P write_build_info.cmake
#
# Runs in every build, and writes OUTPUT only if it changes. REVISION, if it is not empty, is that of
# a source that is not in git.
include(${VALUES})
set(STOKER_REVISION ${REVISION})
find_program(GIT git)
if(NOT STOKER_REVISION AND GIT)
  # A source that was unpacked inside another project's repository has no revision.
  execute_process(COMMAND ${GIT} rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE_DIR}" source)
  if(top STREQUAL source)
    execute_process(COMMAND ${GIT} describe --always --abbrev=12 --exclude=* --dirty=+
      WORKING_DIRECTORY ${SOURCE_DIR}
      OUTPUT_VARIABLE STOKER_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
# A source distribution (tools/make_sdist.sh).
if(NOT STOKER_REVISION AND EXISTS ${SOURCE_DIR}/REVISION)
  file(STRINGS ${SOURCE_DIR}/REVISION STOKER_REVISION LIMIT_COUNT 1)
endif()
if(NOT STOKER_REVISION)
  set(STOKER_REVISION unknown)
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
