# How every target of Muster is declared: muster_library and muster_test, with dependencies spelled out.

if(MUSTER_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)

add_library(muster_flags INTERFACE)
target_include_directories(muster_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(muster_flags INTERFACE _GLIBCXX_ASSERTIONS)
target_compile_options(
  muster_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wextra-semi
            $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
            $<$<CXX_COMPILER_ID:GNU>:-Wno-missing-field-initializers>
            $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-designated-field-initializers>
            # std::stable_sort of libstdc++ 12 uses what C++23 deprecates.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
            $<$<BOOL:${MUSTER_WERROR}>:-Werror>)

# Sanitizers apply to Muster's own code. UBSan costs half as much compile time again, and on Beast three times as much, so it guards the core: arithmetic,
# parsers and decisions. The other targets, and those that say NO_UBSAN, keep ASan and TSan.
set(MUSTER_UBSAN_TARGETS muster_base muster_api muster_yaml muster_cel muster_quota muster_placement muster_decisions muster_jobs)
set(MUSTER_SANITIZE_NO_UBSAN "${MUSTER_SANITIZE}")
list(TRANSFORM MUSTER_SANITIZE_NO_UBSAN REPLACE ",?undefined" "")

function(muster_apply_flags target no_ubsan)
  target_link_libraries(${target} PRIVATE muster_flags)
  if(MUSTER_SANITIZE)
    if(no_ubsan OR NOT ${target} IN_LIST MUSTER_UBSAN_TARGETS)
      set(sanitizers "${MUSTER_SANITIZE_NO_UBSAN}")
    else()
      set(sanitizers "${MUSTER_SANITIZE}")
    endif()
    if(sanitizers)
      target_compile_options(${target} PRIVATE -fsanitize=${sanitizers} -fno-sanitize-recover=all
                                               -fno-omit-frame-pointer)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${MUSTER_SANITIZE})
  endif()
endfunction()

# muster_library(NAME quota HDRS tree.h SRCS tree.cc DEPS muster::base [PRIVATE_DEPS ...] [NO_UBSAN])
# Makes target muster_<name> with alias muster::<name>. HDRS form a header set, so all_verify_interface_header_sets proves that each
# compiles alone.
function(muster_library)
  cmake_parse_arguments(ARG "NO_UBSAN" "NAME" "HDRS;SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target muster_${ARG_NAME})
  add_library(${target} STATIC ${ARG_SRCS})
  add_library(muster::${ARG_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON LINKER_LANGUAGE CXX)
  if(ARG_HDRS)
    target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${CMAKE_SOURCE_DIR}" FILES ${ARG_HDRS})
  endif()
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
  muster_apply_flags(${target} "${ARG_NO_UBSAN}")
endfunction()

# muster_test(NAME quota_test SRCS tree_test.cc DEPS muster::quota [LABELS slow]): a GoogleTest binary, one per module, run by ctest.
function(muster_test)
  cmake_parse_arguments(ARG "NO_UBSAN" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${ARG_NAME} PRIVATE MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  muster_apply_flags(${ARG_NAME} "${ARG_NO_UBSAN}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
