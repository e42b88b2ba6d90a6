# libstoker.so and libstoker.a, both made from the objects of the layers: nothing is compiled for them.
# The layers themselves stay static libraries that only this build knows; what is built here and not
# installed, such as the command and the tests, links those.
get_property(STOKER_LIBRARY_LAYERS GLOBAL PROPERTY STOKER_LAYERS)
list(REMOVE_ITEM STOKER_LIBRARY_LAYERS stoker_bench)  # behind `stoker bench` alone
foreach(layer IN LISTS STOKER_LIBRARY_LAYERS)
  list(APPEND STOKER_OBJECTS $<TARGET_OBJECTS:${layer}>)
  get_target_property(headers ${layer} STOKER_PUBLIC_HEADERS)
  list(APPEND STOKER_PUBLIC_HEADERS ${headers})
  get_target_property(libraries ${layer} STOKER_LIBRARIES)
  list(APPEND STOKER_LIBRARIES ${libraries})
endforeach()
list(REMOVE_DUPLICATES STOKER_LIBRARIES)
list(REMOVE_ITEM STOKER_LIBRARIES nlohmann_json::nlohmann_json)  # headers alone

# stoker_library(<target> STATIC|SHARED): users know both as stoker::stoker.
function(stoker_library target kind)
  add_library(${target} ${kind} ${STOKER_OBJECTS})
  if(NOT STOKER_INSTALL OR STOKER_SANITIZE)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${STOKER_PUBLIC_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE ${STOKER_LIBRARIES})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME stoker EXPORT_NAME stoker LINKER_LANGUAGE CXX
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

stoker_library(stoker_static STATIC)
stoker_library(stoker_shared SHARED)
# Before 1.0 a minor version may change the interface.
set_target_properties(stoker_shared PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/stoker.map)
target_link_options(stoker_shared PRIVATE
  LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/stoker.map)
if(NOT STOKER_SANITIZE)
  target_link_options(stoker_shared PRIVATE LINKER:-z,defs)
endif()

# For projects that add this one as a subdirectory.
if(BUILD_SHARED_LIBS)
  add_library(stoker::stoker ALIAS stoker_shared)
else()
  add_library(stoker::stoker ALIAS stoker_static)
endif()
