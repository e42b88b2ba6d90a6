# cmake -DPREFIX= -DSCRATCH= -DEXAMPLES= -DPAGE= -DCXX= -DGENERATOR= -DBUILD_TYPE= -DVERSION= -P consumers.cmake
#
# A consumer of libstoker.so must need none of the development packages that Stoker is built from:
# those are hidden from it.
include(${CMAKE_CURRENT_LIST_DIR}/run_step.cmake)
set(CONSUMER ${CMAKE_CURRENT_LIST_DIR}/consumer)

if(NOT CXX)
  message(STATUS "left out: there is no clang++ on this machine (make lint and make interop install it)")
  return()
endif()

# run_consumer(<how> command...): runs the program, which must also come from the library asked for.
function(run_consumer linkage program)
  run_step("${program}" ${program} ${SCRATCH})
  if(NOT OUT MATCHES "stoker ${VERSION}.*engine")
    message(FATAL_ERROR "${program} said something else:\n${OUT}")
  endif()
  message(STATUS "${linkage}: ${OUT}")
  run_step("objdump" objdump -p ${program})
  if(OUT MATCHES "NEEDED +libstoker\\.so")
    set(found shared)
  else()
    set(found static)
  endif()
  if(NOT linkage STREQUAL found)
    message(FATAL_ERROR "${program} was to be linked with the ${linkage} library:\n${OUT}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
file(MAKE_DIRECTORY ${SCRATCH})
set(hidden_shared -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON
  -DCMAKE_DISABLE_FIND_PACKAGE_BZip2=ON -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON)
foreach(linkage shared static)
  run_step("configure ${linkage}" ${CMAKE_COMMAND} -S ${CONSUMER} -B ${SCRATCH}/${linkage}
    -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
    -DCMAKE_PREFIX_PATH=${PREFIX} -Dwanted_version=${VERSION} -Dlinkage=${linkage}
    -Dexamples=${EXAMPLES} ${hidden_${linkage}})
  run_step("build ${linkage}" ${CMAKE_COMMAND} --build ${SCRATCH}/${linkage})
  run_consumer(${linkage} ${SCRATCH}/${linkage}/consumer)
endforeach()

# The conformance suite of stores, as it is installed.
run_step("the suite of stores" ${SCRATCH}/static/store_suite)

# The first program of docs/cpp.md, with the CMakeLists.txt that the page shows.
file(READ ${PAGE} page)
function(write_block language file)
  string(FIND "${page}" "```${language}\n" begin)
  string(SUBSTRING "${page}" ${begin} -1 rest)
  string(FIND "${rest}" "\n```" end)
  string(LENGTH "```${language}\n" fence)
  math(EXPR size "${end} - ${fence} + 1")
  string(SUBSTRING "${rest}" ${fence} ${size} block)
  file(WRITE ${SCRATCH}/page/${file} "${block}")
endfunction()
write_block(cmake CMakeLists.txt)
write_block(cpp train.cc)
run_step("configure the page's program" ${CMAKE_COMMAND} -S ${SCRATCH}/page -B ${SCRATCH}/page/build
  -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${PREFIX})
run_step("build the page's program" ${CMAKE_COMMAND} --build ${SCRATCH}/page/build --target train)

# A component that there is not is an error that says which there are.
file(WRITE ${SCRATCH}/unknown/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)
project(unknown LANGUAGES CXX)
find_package(stoker REQUIRED COMPONENTS python)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SCRATCH}/unknown -B ${SCRATCH}/unknown/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_PREFIX_PATH=${PREFIX} RESULT_VARIABLE failed ERROR_VARIABLE out OUTPUT_QUIET)
if(NOT failed OR NOT out MATCHES "shared[ \n]+or[ \n]+static")
  message(FATAL_ERROR "an unknown component was accepted, or not explained:\n${out}")
endif()

find_program(PKG_CONFIG NAMES pkg-config pkgconf REQUIRED)
set(ENV{PKG_CONFIG_LIBDIR} ${PREFIX}/lib/pkgconfig)  # and no other
set(ENV{LD_LIBRARY_PATH} ${PREFIX}/lib)
# A linker prefers libstoker.so where there are both.
set(query_shared "$(${PKG_CONFIG} --libs stoker)")
set(query_static "$(${PKG_CONFIG} --libs --static stoker | sed 's/-lstoker/-l:libstoker.a/')")
foreach(linkage shared static)
  set(program ${SCRATCH}/pkg_config_${linkage})
  run_step("pkg-config ${linkage}" sh -c "${CXX} -std=c++20 $(${PKG_CONFIG} --cflags stoker) \
    ${CONSUMER}/main.cc -o ${program} ${query_${linkage}}")
  run_consumer(${linkage} ${program})
endforeach()
